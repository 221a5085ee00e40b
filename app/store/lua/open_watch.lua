-- Counts an open event stream: tenant, id of the stream, maximum number, how long it counts in ms.
-- Returns 1, or 0 if there are as many already.
local tenant, stream, most, lease_ms = unpack(ARGV)
local key, at = WATCHERS .. tenant, clock()
redis.call('ZREMRANGEBYSCORE', key, '-inf', at)
if redis.call('ZSCORE', key, stream) then return 1 end  -- sent twice
if redis.call('ZCARD', key) >= tonumber(most) then return 0 end
redis.call('ZADD', key, at + lease_ms, stream)
redis.call('PEXPIRE', key, lease_ms)
return 1
