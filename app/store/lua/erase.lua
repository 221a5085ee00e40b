-- Deletes a refinement in any status: id, tenant. Returns OK or MISSING.
local id, owner = unpack(ARGV)
local tenant, holder = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'holder'))
if tenant ~= owner then return 'MISSING' end
forget(id)
notify(id, holder)
redis.call('PUBLISH', CHANGES, id)
return 'OK'
