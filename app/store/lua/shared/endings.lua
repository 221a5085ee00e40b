-- How a refinement ends.

-- Returns the summary fields of an ended refinement, and updates everything outside the summary. The worker's fields
-- must be stored before; `given` has the worker's additions to sums (JSON), if there are any. The sums change later, by
-- `count_endings`: until then the record keeps what is to be added. Additions of the first ending alone count: after a
-- retry its drafts would count twice. They contain names of criteria, so none are kept with `store: false`.
local function end_refinement(id, tenant, from, to, at, retention_ms, given)
  local expires = at + retention_ms
  count_bytes(id, tenant)
  relist(id, tenant, from, to)
  release(id)
  unpark(id, tenant)
  if from == 'queued' then leave_line(id, tenant) end
  local outcome = to
  if to == 'succeeded' then
    local best, passed = unpack(redis.call('HMGET', SUMMARY .. id, 'best', 'best_passed'))
    outcome = passed == 'true' and 'passed' or best and 'best_effort' or 'failed'
  end
  redis.call('HDEL', SUMMARY .. id, 'review', 'approvals', 'also_asked', 'paused_at', 'review_until',
    'waiting', 'parked_at', 'in_vain', 'pause')
  redis.call('ZREM', WAITING, id)
  redis.call('ZREM', DEADLINES, id)
  local is_stored = redis.call('HGET', SUMMARY .. id, 'store') ~= '0'
  redis.call('ZADD', DUE, is_stored and expires or math.min(expires, at + UNSTORED_MS), id)
  if is_stored then redis.call('ZADD', TO_PACK, at, id) end
  if is_stored and given and to ~= 'canceled' then redis.call('HSETNX', SUMMARY .. id, 'added', given) end
  redis.call('ZADD', TO_COUNT, at, id)
  redis.call('HSET', SUMMARY .. id, 'outcome', outcome)
  return 'status', to, 'phase', '[]', 'ended_at', at, 'expires_at', expires
end

-- Ends a refinement that no worker holds: with an error (JSON) it fails, else it is canceled; `n` is the number of the entry.
local function end_now(id, tenant, from, at, n, retention_ms, failure)
  local to = failure and 'failed' or 'canceled'
  if failure then redis.call('HSET', SUMMARY .. id, 'error', failure) end
  write(id, n, at, end_of(to))
  redis.call('HSET', SUMMARY .. id, 'last_event', n, 'stop_reason', failure and 'error' or 'canceled',
    end_refinement(id, tenant, from, to, at, retention_ms))
end

-- Cancels a refinement that has not ended: at once, or as soon as the worker that holds it has stopped.
local function cancel(id, at)
  local key = SUMMARY .. id
  local tenant, status, holder, last, retention_ms = unpack(redis.call('HMGET', key,
    'tenant', 'status', 'holder', 'last_event', 'retention_ms'))
  if status == 'running' then
    last = last + 1
    write(id, last, at, 'refinement.canceling')
    relist(id, tenant, status, 'canceling')
    status = 'canceling'
    redis.call('HSET', key, 'status', status, 'last_event', last)
  end
  -- There is no need to wait for a worker whose lease has expired: if it still runs, it is fenced.
  if status ~= 'canceling' or not is_held(holder, at) then
    end_now(id, tenant, status, at, last + 1, retention_ms)
  end
  publish(id)
  notify(id, holder)
end

-- Lets a failed refinement go on from its journal; `n` is the number of the entry about that.
-- Returns the number of the RQ job to enqueue.
local function reopen(id, tenant, n, at, limits, voided, lease_ms)
  local key = SUMMARY .. id
  local batch, deadline, used = unpack(redis.call('HMGET', key, 'batch', 'deadline', 'used'))
  take_back(id, tenant)
  if batch and redis.call('EXISTS', BATCH .. batch) == 1 and redis.call('SADD', BATCH_LIVE .. batch, id) == 1 then
    redis.call('HINCRBY', BATCH .. batch, 'failed', -1)
    redis.call('ZADD', BATCHES, at, batch)
  end
  if deadline and tonumber(deadline) > at then
    redis.call('ZADD', DEADLINES, deadline, id)
  elseif deadline then  -- it has passed, and would end the retry at once
    redis.call('HDEL', key, 'deadline')
  end
  redis.call('HDEL', key, 'error', 'outcome', 'stop_reason', 'ended_at', 'expires_at', 'stopping',
    'finish_requested', 'parked_at', 'ended_event')
  redis.call('ZREM', TO_PACK, id)
  redis.call('HINCRBY', key, 'limits_seq', 1)
  redis.call('HINCRBY', key, 'steps', 0 - voided)
  redis.call('HSET', key, 'limits', limits, 'attempt', 0, 'anew', 1, 'counted', used or '{}')
  return queued_again(id, tenant, 'failed', n, at, lease_ms)
end
