-- Takes parked refinements, one for each permit: model, number of permits, lease in ms. Tenants take turns.
-- Returns id and RQ job number of each.
local model, permits, lease_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local turns = PARKED .. ':' .. model
local at = clock()
local found = {}
while permits > 0 do
  local tenant = redis.call('ZRANGE', turns, 0, 0)[1]
  if not tenant then break end
  local id = redis.call('ZRANGE', PARKED_OF .. tenant .. ':' .. model, 0, 0)[1]
  local last = redis.call('ZREVRANGE', turns, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', turns, last + 1, tenant)
  local status, holder, lease = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'holder', 'lease'))
  if status == 'running' and not is_held(holder, lease, at) then
    found[#found + 1] = id
    found[#found + 1] = hurried(id, tenant, at, lease_ms)
    redis.call('HSET', SUMMARY .. id, 'permit', model)
    permits = permits - 1
  else  -- a worker of an earlier release has claimed it
    unpark(id, tenant)
    redis.call('ZREM', PARKED_OF .. tenant .. ':' .. model, id)
  end
end
return found
