-- Writes the quotas of a tenant with the share of this cell: tenant, number, quotas (JSON). Nothing changes if those
-- that are stored have this number or a later one.
-- Returns of queued, in_flight and bytes_stored what this cell may have now: its share, or what is in it if that is more.
local tenant, number, quotas = unpack(ARGV)
local stored = redis.call('HGET', TENANTS, tenant)
local known = stored and cjson.decode(stored).number or 0
if tonumber(number) > known then redis.call('HSET', TENANTS, tenant, quotas) end
local share, uses, found = quotas_of(tenant), uses_of(tenant), {}
for n, kind in ipairs({ 'queued', 'in_flight', 'bytes_stored' }) do found[n] = math.max(uses[kind], share[kind] or 0) end
return found
