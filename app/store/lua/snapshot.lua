-- Reads the summary: id, tenant. Returns false if the tenant has no such refinement.
local id, owner = unpack(ARGV)
local key = SUMMARY .. id
if redis.call('HGET', key, 'tenant') ~= owner then return false end
return redis.call('HGETALL', key)
