-- Returns what refinements were put back for lately and no running worker can play.
local at = clock()
redis.call('ZREMRANGEBYSCORE', UNPLAYABLE, '-inf', at)
redis.call('ZREMRANGEBYSCORE', PLAYABLE, '-inf', at)
local found = {}
for _, version in ipairs(redis.call('ZRANGE', UNPLAYABLE, 0, -1)) do
  if not redis.call('ZSCORE', PLAYABLE, version) then found[#found + 1] = version end
end
return found
