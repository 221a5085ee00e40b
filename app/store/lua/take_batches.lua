-- Looks at the batches that are due: begins requests of them, cancels, erases or ends them. Arguments: maximum count,
-- lease in ms, ms until the next look at a batch, maximum of queued refinements of a tenant before the script begins
-- no more, maximum of refinements of one batch under way.
-- Returns ms until the next batch is due (-1: there is none), then id and RQ job number of each that needs a worker.
local limit, lease_ms, every_ms, most_queued, most_live = unpack(ARGV)
local at, found = clock(), { -1 }
local HALVED = { queued = { 'queued' }, in_flight = { 'queued', 'running', 'canceling' } }
local WAITED_FOR = { tokens_per_day = true, cost_usd_per_day = true, bytes_stored = true }

local function is_memory_full()
  local info = redis.call('INFO', 'memory')
  local used, most = string.match(info, 'used_memory:(%d+)'), string.match(info, 'maxmemory:(%d+)')
  return tonumber(most or 0) > 0 and used / most >= FULL
end

-- Returns how many of the first 5,000 refinements in a list no worker takes yet, because of their `start_after`.
local function scheduled_in(list)
  local count = 0
  for _, id in ipairs(redis.call('ZRANGE', list, 0, 4999)) do
    if tonumber(redis.call('HGET', SUMMARY .. id, 'start_after') or 0) > at then count = count + 1 end
  end
  return count
end

-- Returns whether no worker takes a request yet that has not begun.
local function is_scheduled(id)
  local fields = cjson.decode(redis.call('HGET', REQUEST .. id, 'staged')).summary
  for i = 1, #fields, 2 do
    if fields[i] == 'start_after' then return tonumber(fields[i + 1]) > at end
  end
end

-- Returns how many refinements of a batch may begin, and whether those may not that no worker takes yet: a batch leaves
-- half of the quotas of a tenant to others.
local function room_for(batch, tenant)
  local by_status, counts = LIST .. tenant .. BY_STATUS, {}
  for _, status in ipairs(HALVED.in_flight) do counts[status] = redis.call('ZCARD', by_status .. status) end
  local is_full = counts.queued >= tonumber(most_queued)
  local queued = counts.queued - (is_full and scheduled_in(by_status .. 'queued') or 0)
  local room = math.min(most_queued - queued, most_live - redis.call('SCARD', BATCH_LIVE .. batch))
  local quotas = quotas_of(tenant) or {}
  for quota, statuses in pairs(HALVED) do
    local most, used = tonumber(quotas[quota]), 0
    for _, status in ipairs(statuses) do used = used + counts[status] end
    if most then room = math.min(room, math.ceil(most / 2) - used) end
  end
  return room, is_full
end

-- Returns why no request of a tenant may begin now (JSON), or nothing.
local function obstacle(tenant)
  local quota, most = reached(tenant, WAITED_FOR)
  if quota then
    return cjson.encode({ reason = 'quota', detail = string.format('the quota %s, %s, is used up', quota, most) })
  end
  if is_memory_full() then return '{"reason":"memory","detail":"the memory of Redis is nearly full"}' end
end

local function begin(batch, tenant, id)
  local request = REQUEST .. id
  local stored, prompt_nonce = unpack(redis.call('HMGET', request, 'staged', 'prompt_nonce'))
  local staged, bytes = cjson.decode(stored), redis.call('MEMORY', 'USAGE', request, 'SAMPLES', 0)
  redis.call('HINCRBY', STORED, tenant, 0 - bytes)
  redis.call('HINCRBY', BATCH .. batch, 'bytes', 0 - bytes)
  redis.call('HDEL', request, 'staged')
  create(id, tenant, at, staged.deadline, staged.metadata, staged.queued, prompt_nonce, staged.begins, staged.summary)
  redis.call('ZADD', LIST .. tenant .. BY_BATCH .. batch, 0, id)
  redis.call('SADD', BATCH_LIVE .. batch, id)
  redis.call('ZADD', WAITING, at + lease_ms, id)  -- found again if its job is not enqueued
  count_bytes(id, tenant)
  found[#found + 1] = id
  found[#found + 1] = 1
end

local function feed(batch)
  local hash = BATCH .. batch
  local tenant, next, positions, pending = unpack(
    redis.call('HMGET', hash, 'tenant', 'next', 'positions', 'pending'))
  if tonumber(pending) == 0 then return end
  local why = obstacle(tenant)
  if why then
    redis.call('HSET', hash, 'waiting', why)
    return
  end
  redis.call('HDEL', hash, 'waiting')
  local room, is_full = room_for(batch, tenant)
  local last, begun = math.min(positions, next + 999), 0
  next = tonumber(next)
  while next <= last and begun < room do
    local item = redis.call('HGET', BATCH_ITEMS .. batch, next)
    local id = item and cjson.decode(item).id
    if id then
      if is_full and is_scheduled(id) then break end
      begin(batch, tenant, id)
      begun = begun + 1
    end
    next = next + 1
  end
  redis.call('HSET', hash, 'next', next)
  redis.call('HINCRBY', hash, 'pending', 0 - begun)
end

local function look(batch)
  local status, expires = unpack(redis.call('HMGET', BATCH .. batch, 'status', 'expires_at'))
  if status == 'receiving' and at - up_since(at, lease_ms) < lease_ms / 2 then
    return  -- those that receive it renew its lease first
  elseif not status or status == 'receiving' or status == 'erasing' then
    erase_some(batch, 100)
  elseif status == 'canceling' then
    cancel_some(batch, at, 100)
  elseif status == 'running' then
    feed(batch)
    settle(batch, at)
  elseif tonumber(expires) <= at then  -- its refinements go when they are due themselves
    forget_batch(batch)
  else
    settle(batch, at)
    local is_open = redis.call('EXISTS', BATCH_LIVE .. batch) == 1
    redis.call('ZADD', BATCHES, is_open and math.min(expires, at + every_ms) or expires, batch)
  end
end

go_on_when_full()
for _, batch in ipairs(redis.call('ZRANGEBYSCORE', BATCHES, '-inf', at, 'LIMIT', 0, limit)) do
  redis.call('ZADD', BATCHES, at + every_ms, batch)
  look(batch)
end
local next_due = redis.call('ZRANGE', BATCHES, 0, 0, 'WITHSCORES')[2]
if next_due then found[1] = math.max(next_due - at, 0) end
return found
