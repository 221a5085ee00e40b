-- How a refinement stands: id, tenant. Returns false when it is nobody's, else its summary.
local id, owner = unpack(ARGV)
local key = SUMMARY .. id
if redis.call('HGET', key, 'tenant') ~= owner then return false end
return redis.call('HGETALL', key)
