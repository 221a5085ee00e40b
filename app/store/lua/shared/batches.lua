-- Batches of refinements.

-- Counts the refinements of a batch by status, and by outcome once they have ended, and ends the batch once all have ended
-- and a canceled one has dropped every request that was not begun.
local function settle(batch, at)
  local hash, live = BATCH .. batch, BATCH_LIVE .. batch
  local seen, left = { queued = 0, running = 0, paused = 0, canceling = 0 }, 0
  for _, id in ipairs(redis.call('SMEMBERS', live)) do
    local status, outcome = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'outcome'))
    if status and not is_terminal(status) then
      seen[status], left = (seen[status] or 0) + 1, left + 1
    else
      redis.call('SREM', live, id)
      redis.call('HINCRBY', hash, outcome or 'erased', 1)
    end
  end
  for status, count in pairs(seen) do redis.call('HSET', hash, status, count) end
  local status, pending, next, positions, retention_ms, webhook = unpack(
    redis.call('HMGET', hash, 'status', 'pending', 'next', 'positions', 'retention_ms', 'webhook'))
  if left + pending > 0 or status ~= 'running' and status ~= 'canceling' then return end
  if status == 'canceling' and tonumber(next) <= tonumber(positions) then return end
  redis.call('HSET', hash, 'status', status == 'running' and 'completed' or 'canceled', 'ended_at', at,
    'expires_at', at + retention_ms)
  redis.call('HDEL', hash, 'waiting')
  redis.call('ZADD', BATCHES, at + retention_ms, batch)
  if webhook then
    redis.call('HSET', DELIVERIES .. batch, 1, '{"type":"' .. BATCH_COMPLETED .. '"}')
    redis.call('ZADD', OUTBOX, at, batch .. ' 1')
  end
end

-- Deletes the request of a batch that has not begun.
local function drop_request(batch, id, tenant)
  local bytes = redis.call('MEMORY', 'USAGE', REQUEST .. id, 'SAMPLES', 0)
  if not bytes then return end
  redis.call('UNLINK', REQUEST .. id)
  note_erasure()
  redis.call('HINCRBY', STORED, tenant, 0 - bytes)
  redis.call('HINCRBY', BATCH .. batch, 'bytes', 0 - bytes)
end

-- Deletes the record of a batch.
local function forget_batch(batch)
  local hash = BATCH .. batch
  local tenant, record, bytes = unpack(redis.call('HMGET', hash, 'tenant', 'idempotency', 'bytes'))
  forget_key(record, batch)
  redis.call('ZREM', BATCHES, batch)
  redis.call('ZREM', OUTBOX, batch .. ' 1')
  if tenant then
    redis.call('ZREM', LIST .. tenant .. ALL_BATCHES, batch)
    free_bytes(tenant, bytes)
  end
  redis.call('UNLINK', hash, BATCH_ITEMS .. batch, BATCH_LIVE .. batch, DELIVERIES .. batch)
  note_erasure()
end

-- Erases up to `most` requests of a batch with what came of them, and in the end the batch itself.
-- Returns whether there is more to erase.
local function erase_some(batch, most)
  local tenant, left = unpack(redis.call('HMGET', BATCH .. batch, 'tenant', 'positions'))
  if not tenant then
    forget_batch(batch)
    return false
  end
  left = tonumber(left)
  while left > 0 and most > 0 do
    local item = redis.call('HGET', BATCH_ITEMS .. batch, left)
    local id = item and cjson.decode(item).id
    if id and redis.call('EXISTS', SUMMARY .. id) == 1 then erase(id)
    elseif id then drop_request(batch, id, tenant) end
    redis.call('HDEL', BATCH_ITEMS .. batch, left)
    left, most = left - 1, most - 1
  end
  redis.call('HSET', BATCH .. batch, 'positions', left)
  if left > 0 then return true end
  forget_batch(batch)
  redis.call('SET', ERASED .. batch, 1, 'PX', ERASED_MS)
  return false
end

-- Cancels up to `most` refinements of a batch, and deletes as many requests that have not begun.
-- Returns whether there is more to cancel.
local function cancel_some(batch, at, most)
  local hash, room = BATCH .. batch, most
  for _, id in ipairs(redis.call('SMEMBERS', BATCH_LIVE .. batch)) do
    local status = redis.call('HGET', SUMMARY .. id, 'status')
    if status and not is_terminal(status) and status ~= 'canceling' then
      if room == 0 then return true end
      cancel(id, at)
      room = room - 1
    end
  end
  local tenant, next, positions = unpack(redis.call('HMGET', hash, 'tenant', 'next', 'positions'))
  local last = math.min(positions, next + most - 1)
  for position = tonumber(next), last do
    local item = redis.call('HGET', BATCH_ITEMS .. batch, position)
    local id = item and cjson.decode(item).id
    if id then drop_request(batch, id, tenant) end
  end
  redis.call('HSET', hash, 'next', last + 1)
  settle(batch, at)
  return last < tonumber(positions)
end
