-- Adds what a worker has spent for tenants: name of the worker, number of the report, then for each tenant
-- its name, tokens and dollars, and what a worker of another cell wants to have reserved of them, else ''.
-- A repeated report adds nothing. At most half of what is left is reserved; what a worker holds is taken
-- from it only as it reports what it spent, or wants less.
-- Returns ms until the next day of UTC, then for each tenant its tokens, dollars, quotas ('' if none), and
-- what is reserved for this worker. What is reserved for others counts as spent.
local worker, number = '=' .. ARGV[1], tonumber(ARGV[2])
local at = clock()
local day = math.floor(at / DAY_MS)
local found = { (day + 1) * DAY_MS - at }
for i = 3, #ARGV, 5 do
  local tenant, tokens, cost_usd = unpack(ARGV, i, i + 2)
  local sums = SPENT .. tenant .. ':' .. day
  local is_new = number > tonumber(redis.call('HGET', sums, worker) or 0)
  if is_new and (tonumber(tokens) > 0 or tonumber(cost_usd) > 0) then
    redis.call('HSET', sums, worker, number)
    redis.call('HINCRBY', sums, 'tokens', tokens)
    redis.call('HINCRBYFLOAT', sums, 'cost_usd', cost_usd)
    redis.call('PEXPIRE', sums, 3 * DAY_MS)
  end
  local quotas, kept = redis.call('HGET', TENANTS, tenant) or '', { 0, 0 }
  local has = redis.call('HMGET', sums, 'tokens', 'cost_usd', 'reserved tokens', 'reserved cost_usd')
  local of = ARGV[i + 3] ~= '' and quotas ~= '' and cjson.decode(quotas) or {}
  for n, kind in ipairs({ 'tokens', 'cost_usd' }) do
    local most, others = tonumber(of[kind .. '_per_day']), tonumber(has[n + 2]) or 0
    if most then
      local held = tonumber(redis.call('HGET', sums, kind .. worker)) or 0
      others = math.max(0, others - held)
      local half = (most - (tonumber(has[n]) or 0) - others) / 2
      local rest = held - (is_new and tonumber(ARGV[i + n]) or 0)
      kept[n] = math.max(0, math.min(tonumber(ARGV[i + 2 + n]), math.max(half, rest)))
      redis.call('HSET', sums, kind .. worker, kept[n], 'reserved ' .. kind, others + kept[n])
      redis.call('PEXPIRE', sums, 3 * DAY_MS)
    end
    found[#found + 1] = others > 0 and tostring((tonumber(has[n]) or 0) + others) or has[n] or '0'
  end
  for _, word in ipairs({ quotas, tostring(kept[1]), tostring(kept[2]) }) do found[#found + 1] = word end
end
return found
