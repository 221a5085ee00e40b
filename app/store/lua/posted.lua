-- A job was put into the queue: id, lease in ms. From now on the queue is what to watch, unless a
-- worker has it already.
local id, lease_ms = unpack(ARGV)
local status, lease = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'lease'))
local at = clock()
if status ~= 'queued' and status ~= 'running' then return end
if lease and tonumber(lease) > at then return end
redis.call('ZREM', DUE, id)
redis.call('ZADD', WAITING, at + lease_ms, id)
