-- Takes parked refinements, one for each permit: model, number of permits, lease in ms. Tenants take turns.
-- Returns id and RQ job number of each.
local model, permits, lease_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local turns = PARKED .. ':' .. model
local at = clock()
local found = {}

-- Returns the tenant's first refinement. If there is one permit (a probe) and some refinements here have already
-- wasted one, it returns any that has not.
local function next_of(places)
  local untried = redis.call('ZCOUNT', places, '-inf', '(' .. MOST_STEPS / 2)
  local is_open = tonumber(ARGV[2]) == 1 and untried > 0 and untried < redis.call('ZCARD', places)
  local place = is_open and at % untried or 0
  return redis.call('ZRANGE', places, place, place)[1]
end

while permits > 0 do
  local tenant = redis.call('ZRANGE', turns, 0, 0)[1]
  if not tenant then break end
  local id = next_of(PARKED_OF .. tenant .. ':' .. model)
  local last = redis.call('ZREVRANGE', turns, 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', turns, last + 1, tenant)
  local status, holder = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'holder'))
  if (status == 'running' or status == 'queued') and not is_held(holder, at) then
    found[#found + 1] = id
    found[#found + 1] = enqueue_first(id, tenant, at, lease_ms)
    redis.call('HSET', SUMMARY .. id, 'permit', model)
    permits = permits - 1
  else  -- another one holds it, or it has ended
    unpark(id, tenant)
    redis.call('ZREM', PARKED_OF .. tenant .. ':' .. model, id)
  end
end
return found
