-- Replaces a field of a hash: key, field, what it was, what it becomes. Returns 1, or 0 if it is another one by now.
local key, name, before, after = unpack(ARGV)
if redis.call('HGET', key, name) ~= before then return 0 end
redis.call('HSET', key, name, after)
return 1
