-- Deletes a refinement in any status: id, tenant. Returns OK or MISSING.
local id, owner = unpack(ARGV)
if redis.call('HGET', SUMMARY .. id, 'tenant') ~= owner then return 'MISSING' end
erase(id)
return 'OK'
