-- Counts refinements that have ended, and takes those whose records are to be packed: maximum number to count, for how
-- long the oldest must have ended in ms, so that one script counts many; maximum number to take, for how long they must
-- have ended, after how many ms they may be taken again.
-- Returns the number of counted ones, then the ids of those to be packed.
local most_counted, count_after_ms, most, after_ms, again_ms = unpack(ARGV)
local at = clock()
local oldest = redis.call('ZRANGE', TO_COUNT, 0, 0, 'WITHSCORES')[2]
local is_time = oldest and tonumber(oldest) <= at - count_after_ms
local ended = is_time and redis.call('ZRANGE', TO_COUNT, 0, most_counted - 1) or {}
go_on_when_full()
count_endings(ended)
local ids = redis.call('ZRANGEBYSCORE', TO_PACK, '-inf', at - after_ms, 'LIMIT', 0, most)
for _, id in ipairs(ids) do redis.call('ZADD', TO_PACK, at - after_ms + again_ms, id) end
return { #ended, unpack(ids) }
