-- Reads the webhooks of a refinement: id, tenant. Returns false if the tenant has no such refinement, else
-- number of the event, state and when it is due (or '') of each.
local id, owner = unpack(ARGV)
if redis.call('HGET', record_of(id), 'tenant') ~= owner then return false end
local stored, found = redis.call('HGETALL', DELIVERIES .. id), {}
for i = 1, #stored, 2 do
  if tonumber(stored[i]) then
    local due = redis.call('ZSCORE', OUTBOX, id .. ' ' .. stored[i])
    found[#found + 1] = { stored[i], stored[i + 1], due or '' }
  end
end
return found
