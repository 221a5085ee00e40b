-- Reads a request: id, tenant. Returns false if the tenant has no such refinement, UNSTORED if its text was erased,
-- else the request and its encrypted secrets, or nothing and the packed record.
local id, owner = unpack(ARGV)
local tenant, erased = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'erased_at'))
if tenant ~= owner then return false end
if erased then return 'UNSTORED' end
local request, secrets = unpack(redis.call('HMGET', REQUEST .. id, 'request', 'secrets'))
if request then return { request, secrets, '' } end
local first = redis.call('XRANGE', JOURNAL .. id, '-', '+', 'COUNT', 1)[1]
if not first or first[2][5] ~= 'packed' then return false end
return { '', '', first[2][6] }
