-- Writes an archived record in place of its stub: id, name of its object, after how many ms it goes to the archive again,
-- the commands that write it. Commands given since stay. Returns 1, or 0 if there is no such stub.
local id, name, after_ms = unpack(ARGV, 1, 3)
local key = SUMMARY .. id
local stub, archived, tenant = unpack(redis.call('HMGET', key, 'stub', 'archived', 'tenant'))
if not stub or archived ~= name then return 0 end
redis.call('UNLINK', key)
perform(4)
redis.call('HDEL', SIGNATURES .. tenant, id)
redis.call('HSET', key, 'archived', '')  -- its object stays, for an older copy of Redis
redis.call('ZADD', TO_ARCHIVE, clock() + after_ms, id)
local expires = redis.call('HGET', key, 'expires_at')
unlist_archived(id, expires)
redis.call('ZADD', DUE, expires, id)
count_bytes(id, tenant)
return 1
