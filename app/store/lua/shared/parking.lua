-- Refinements that wait for a permit of a model.

-- Returns when a parked refinement will have waited for the longest time that its limits allow. The time of one that was
-- parked before it began (it has no `parked_at`) has not begun: its limit counts from now.
local function waits_until(id)
  local parked_at, waited_ms, limits = unpack(
    redis.call('HMGET', SUMMARY .. id, 'parked_at', 'waited_ms', 'limits'))
  local most_s = cjson.decode(limits).max_wait_seconds
  return math.floor((parked_at or clock()) + most_s * 1000 - (waited_ms or 0))
end

-- Returns how often a refinement was parked again without a step in between. Refusals because of a rate,
-- and of a model that hangs, concern all alike; others may be due to the call itself.
local function times_in_vain(id, steps)
  local before, waiting = unpack(redis.call('HMGET', SUMMARY .. id, 'in_vain', 'waiting'))
  local at, times = string.match(before or '', '^(%d+) (%d+)$')
  times = tonumber(at) == steps and times + 1 or 0
  redis.call('HSET', SUMMARY .. id, 'in_vain', string.format('%d %d', steps, times))
  for _, wait in ipairs(cjson.decode(waiting or '[]')) do
    if wait.reason ~= 'rate_limited' and wait.reason ~= 'slow' then return times end
  end
  return 0
end

-- Lines a refinement up under models (JSON): no worker holds it, until it is claimed with a permit for one of
-- them. Those of a tenant are in the order of their places.
local function line_up(id, tenant, models, place)
  redis.call('HSET', SUMMARY .. id, 'parked', models)
  for _, model in ipairs(cjson.decode(models)) do
    redis.call('SADD', PARKED, model)
    local last = redis.call('ZREVRANGE', PARKED .. ':' .. model, 0, 0, 'WITHSCORES')[2] or 0
    redis.call('ZADD', PARKED .. ':' .. model, 'NX', last + 1, tenant)
    redis.call('ZADD', PARKED_OF .. tenant .. ':' .. model, place, id)
  end
end

-- Takes a refinement out of the sets in which it is parked. The time until it is claimed still counts as
-- waiting.
local function unpark(id, tenant)
  local models = redis.call('HGET', SUMMARY .. id, 'parked')
  if not models then return end
  redis.call('HDEL', SUMMARY .. id, 'parked')
  redis.call('SREM', PARKED_QUEUED, id)
  for _, model in ipairs(cjson.decode(models)) do
    local places, turns = PARKED_OF .. tenant .. ':' .. model, PARKED .. ':' .. model
    redis.call('ZREM', places, id)
    if redis.call('EXISTS', places) == 0 then redis.call('ZREM', turns, tenant) end
    if redis.call('EXISTS', turns) == 0 then redis.call('SREM', PARKED, model) end
  end
end

-- Makes a refinement that no worker holds be claimed before others. Returns minus the number of the RQ
-- job to enqueue: its place is the front of the queue.
local function enqueue_first(id, tenant, at, lease_ms)
  unpark(id, tenant)
  leave_line(id, tenant)
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, at + lease_ms / 4, id)  -- unless the job is enqueued
  return -redis.call('HINCRBY', SUMMARY .. id, 'jobs', 1)
end
