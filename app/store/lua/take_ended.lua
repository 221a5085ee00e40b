-- Takes refinements whose records are to be packed: maximum count, for how long they must have ended in ms, after
-- how many ms they may be taken again. Returns their ids.
local most, after_ms, again_ms = unpack(ARGV)
local ended_before = clock() - after_ms
local ids = redis.call('ZRANGEBYSCORE', TO_PACK, '-inf', ended_before, 'LIMIT', 0, most)
for _, id in ipairs(ids) do redis.call('ZADD', TO_PACK, ended_before + again_ms, id) end
return ids
