-- Deletes a refinement in any status: id, tenant. Returns OK or MISSING.
local id, owner = unpack(ARGV)
local tenant, holder = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'holder'))
if tenant ~= owner then return 'MISSING' end
forget(id)
redis.call('SET', ERASED .. id, 1, 'PX', ERASED_MS)  -- against a submission that comes late
notify(id, holder)
publish(id)
return 'OK'
