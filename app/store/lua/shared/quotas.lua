-- What a tenant may have, and the memory that is counted for a tenant.

-- Counts the memory that a refinement takes for its tenant, in place of what was counted before.
local function count_bytes(id, tenant)
  local bytes = 0
  for _, kind in ipairs({ SUMMARY, JOURNAL, REQUEST, PROMPTS }) do
    bytes = bytes + (redis.call('MEMORY', 'USAGE', kind .. id, 'SAMPLES', '0') or 0)
  end
  local before = redis.call('HGET', SUMMARY .. id, 'bytes') or 0
  redis.call('HSET', SUMMARY .. id, 'bytes', bytes)
  redis.call('HINCRBY', STORED, tenant, bytes - before)
end

-- Returns the quotas of a tenant, of several cells its share in this one, and all of them; nothing if there are none.
local function quotas_of(tenant)
  local stored = redis.call('HGET', TENANTS, tenant)
  local quotas = stored and cjson.decode(stored)
  return quotas and (quotas.share or quotas), quotas
end

-- Returns what counts against the quotas for refinements of a tenant.
local function uses_of(tenant)
  local by_status = LIST .. tenant .. BY_STATUS
  local queued = redis.call('ZCARD', by_status .. 'queued')
  local held = redis.call('ZCARD', by_status .. 'running') + redis.call('ZCARD', by_status .. 'canceling')
  local spent = SPENT .. tenant .. ':' .. math.floor(clock() / DAY_MS)
  local tokens, cost_usd = unpack(redis.call('HMGET', spent, 'tokens', 'cost_usd'))
  return { queued = queued, in_flight = queued + held, tokens_per_day = tonumber(tokens or 0),
    cost_usd_per_day = tonumber(cost_usd or 0),
    bytes_stored = tonumber(redis.call('HGET', STORED, tenant) or 0) }
end

-- Returns a quota for refinements that a tenant has reached, and its value; nothing if there is none. With
-- `only`, the names of quotas, the others do not count.
local function reached(tenant, only)
  local quotas, all = quotas_of(tenant)
  if not quotas then return end
  for quota, used in pairs(uses_of(tenant)) do
    local most = quotas[quota]
    local counts = not only or only[quota]
    if counts and most and most ~= cjson.null and used >= most then return quota, all[quota] end
  end
end
