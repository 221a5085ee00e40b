-- Adds what a worker has spent for tenants: name of the worker, number of the report, then for each tenant
-- its name, tokens and dollars. A repeated report adds nothing.
-- Returns ms until the next day of UTC, then for each tenant its tokens, dollars and quotas ('' if none).
local worker, number = '=' .. ARGV[1], tonumber(ARGV[2])
local at = clock()
local day = math.floor(at / DAY_MS)
local found = { (day + 1) * DAY_MS - at }
for i = 3, #ARGV, 3 do
  local tenant, tokens, cost_usd = unpack(ARGV, i, i + 2)
  local sums = SPENT .. tenant .. ':' .. day
  local is_new = number > tonumber(redis.call('HGET', sums, worker) or 0)
  if is_new and (tonumber(tokens) > 0 or tonumber(cost_usd) > 0) then
    redis.call('HSET', sums, worker, number)
    redis.call('HINCRBY', sums, 'tokens', tokens)
    redis.call('HINCRBYFLOAT', sums, 'cost_usd', cost_usd)
    redis.call('PEXPIRE', sums, 3 * DAY_MS)
  end
  found[#found + 1] = redis.call('HGET', sums, 'tokens') or '0'
  found[#found + 1] = redis.call('HGET', sums, 'cost_usd') or '0'
  found[#found + 1] = redis.call('HGET', TENANTS, tenant) or ''
end
return found
