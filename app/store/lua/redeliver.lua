-- Makes a webhook due now: id, tenant, number of the event, state (JSON) to replace the one before, that one.
-- Returns OK, CHANGED if that is not the one before, or MISSING.
local id, owner, n, state, before = unpack(ARGV)
if redis.call('HGET', record_of(id), 'tenant') ~= owner then return 'MISSING' end
local now = redis.call('HGET', DELIVERIES .. id, n)
if not now then return 'MISSING' end
if now ~= before then return 'CHANGED' end
redis.call('HSET', DELIVERIES .. id, n, state)
redis.call('HDEL', DELIVERIES .. id, 'taken ' .. n)
redis.call('ZADD', OUTBOX, clock(), id .. ' ' .. n)
return 'OK'
