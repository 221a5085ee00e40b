-- Reads a batch: id, tenant. Returns false if the tenant has no such batch, or not yet or not any more.
local batch, owner = unpack(ARGV)
local tenant, status = unpack(redis.call('HMGET', BATCH .. batch, 'tenant', 'status'))
if tenant ~= owner or status == 'receiving' or status == 'erasing' then return false end
settle(batch, clock())
return redis.call('HGETALL', BATCH .. batch)
