-- Sets a queued refinement aside if all models of one of its seats are full: id, how many may be set aside at a
-- time, the full models. It stays queued, until it is claimed with a permit like a parked one.
-- Returns whether there is nothing to do for its job now.
local id, most = ARGV[1], tonumber(ARGV[2])
local status, tenant, steps, permit, parked, stopping = unpack(redis.call('HMGET', SUMMARY .. id,
  'status', 'tenant', 'steps', 'permit', 'parked', 'stopping'))
if status ~= 'queued' or permit or stopping then return 0 end
if parked then return 1 end  -- this was sent twice, or is an old job

local full = {}
for i = 3, #ARGV do full[ARGV[i]] = true end

-- Returns the models of a seat if all of them are full.
local function waited_for(choice)
  local names = { choice.model }
  for _, name in ipairs(choice.fallbacks or {}) do names[#names + 1] = name end
  for _, name in ipairs(names) do
    if not full[name] then return end
  end
  return names
end

for _, choice in pairs(cjson.decode(redis.call('HGET', REQUEST .. id, 'models') or '{}')) do
  local models = waited_for(choice)
  if models and redis.call('SCARD', ASIDE) < most then
    redis.call('ZREM', WAITING, id)
    redis.call('SADD', ASIDE, id)
    line_up(id, tenant, cjson.encode(models), -steps)
    redis.call('ZADD', DUE, waits_until(id), id)
    return 1
  end
end
return 0
