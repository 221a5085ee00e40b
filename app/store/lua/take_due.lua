-- Takes what is due, and what workers held whose lease has expired: maximum count, whether an idle
-- worker found the queue empty, lease in ms, days for which usage is kept, names of workers whose process has ended.
-- Returns the number of checked ones, of how many of them the worker is gone, then id and RQ job number
-- of each that needs a worker; minus the number for a job at the front of the queue.
local limit, idle, lease_ms, usage_days = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3], ARGV[4]
local at = clock()
local found = { 0, 0 }
local NEVER_STARTED = '{"code":"nothing_judged","detail":"stopped before a draft was judged'
  .. ' (deadline): no worker took it before its deadline"}'
local expired = at
go_on_when_full()
if at - up_since(at, lease_ms) < lease_ms / 2 then expired = 0 end  -- workers renew their leases first
for i = 5, #ARGV do redis.call('ZADD', WORKERS, 'XX', 0, ARGV[i]) end

local function enqueue(id, set, doubted_at)
  redis.call('ZADD', set, doubted_at, id)  -- so that no other worker takes it meanwhile
  found[#found + 1] = id
  found[#found + 1] = redis.call('HINCRBY', SUMMARY .. id, 'jobs', 1)
end

-- Applies `on_timeout` to the reviews that timed out. Returns the number of the RQ job, or nothing if others are
-- open.
local function timed_out(id, tenant, n)
  local open, soonest, left = open_reviews(id), math.huge, {}
  for _, review in ipairs(open) do soonest = math.min(soonest, review.deadline) end
  for _, review in ipairs(open) do
    if review.deadline > math.max(at, soonest) then
      left[#left + 1] = review
    elseif review.data.on_timeout == 'finish' then
      return finish_paused(id, tenant, n, at, lease_ms)
    else
      write_review(id, n, at,
        string.format('{"key":"%s","action":"%s","by":"timeout"}', review.data.key, review.data.on_timeout))
      n = n + 1
    end
  end
  if #left == 0 then return resume_paused(id, tenant, n - 1, at, lease_ms) end
  still_paused(id, n - 1, left)
end

-- Journals that a limit of time has passed for a refinement that no worker holds, and lets it end.
local function overdue(id, tenant, status, last, retention_ms, limit)
  local stopping, started = unpack(redis.call('HMGET', SUMMARY .. id, 'stopping', 'started_at'))
  if not stopping then
    last = last + 1
    stop(id, last, at, 'deadline', limit)
  end
  if not started then  -- there is nothing to play
    end_now(id, tenant, status, at, last + 1, retention_ms, NEVER_STARTED)
    publish(id)
    return
  end
  found[#found + 1] = id
  if status == 'paused' then
    found[#found + 1] = -resume_paused(id, tenant, last, at, lease_ms)
  else
    found[#found + 1] = enqueue_first(id, tenant, at, lease_ms)
  end
end

-- Returns until when an ended refinement is kept for the results of its batch; nothing if it is not.
local function kept_until(batch)
  local tenant, expires = unpack(redis.call('HMGET', BATCH .. batch, 'tenant', 'expires_at'))
  if tenant and not expires then return at + HOUR_MS end  -- the batch has not ended
  if expires and tonumber(expires) > at then return expires end
end

local function take(id)
  local status, tenant, last, retention_ms, batch = unpack(
    redis.call('HMGET', SUMMARY .. id, 'status', 'tenant', 'last_event', 'retention_ms', 'batch'))
  local later = batch and kept_until(batch)
  if is_to_be_erased(id) and (later or tonumber(redis.call('HGET', SUMMARY .. id, 'expires_at')) > at) then
    erase_text(id)
  elseif not status or is_terminal(status) then
    if later then redis.call('ZADD', DUE, later, id) else forget(id) end
  elseif status == 'paused' then
    local job = timed_out(id, tenant, last + 1)
    if job then found[#found + 1] = id; found[#found + 1] = job end
  elseif status == 'canceling' then
    end_now(id, tenant, status, at, last + 1, retention_ms)
    publish(id)
  elseif redis.call('HEXISTS', SUMMARY .. id, 'parked') == 1 then
    local longest = waits_until(id)
    if longest > at then redis.call('ZADD', DUE, longest, id)
    else overdue(id, tenant, status, last, retention_ms, 'max_wait_seconds') end
  else
    release(id)
    enqueue(id, DUE, at + lease_ms / 4)
  end
end

-- Ends refinements at their deadline if no worker holds them; a worker ends those that it holds.
local function past_deadline(id)
  local status, tenant, last, retention_ms, holder = unpack(redis.call('HMGET', SUMMARY .. id,
    'status', 'tenant', 'last_event', 'retention_ms', 'holder'))
  redis.call('ZREM', DEADLINES, id)
  if not status or is_terminal(status) or status == 'canceling' then return end
  if is_held(holder, at) then
    redis.call('ZADD', DEADLINES, at + lease_ms, id)
  else
    overdue(id, tenant, status, last, retention_ms, 'deadline')
  end
end

local count = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, '-inf', expired)) do
  redis.call('HDEL', SLOTS, name)
  for _, id in ipairs(redis.call('SRANDMEMBER', HELD .. name, limit - count)) do
    count = count + 1
    redis.call('SREM', HELD .. name, id)
    if redis.call('HGET', SUMMARY .. id, 'holder') == name then
      found[2] = found[2] + 1
      take(id)
      notify(id, name)  -- if it still runs, it has lost this one
    end
  end
  if redis.call('EXISTS', HELD .. name) == 0 then redis.call('ZREM', WORKERS, name) end
end
found[1] = count
if expired == 0 then return found end

local due = redis.call('ZRANGEBYSCORE', DUE, '-inf', at, 'LIMIT', 0, limit - count)
for _, id in ipairs(due) do take(id) end
count = count + #due

-- Stubs go once the hour has ended in which they expire, also while the archive is away.
local hour = count < limit and redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', at, 'LIMIT', 0, 1)[1]
if hour then
  local stubs = redis.call('LPOP', EXPIRING .. ':' .. hour, limit - count) or {}
  if count + #stubs < limit then redis.call('ZREM', EXPIRING, hour) end
  for _, id in ipairs(stubs) do
    if redis.call('HEXISTS', SUMMARY .. id, 'stub') == 1 then take(id) end
  end
  count = count + #stubs
end

local past = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', at, 'LIMIT', 0, limit - count)
for _, id in ipairs(past) do past_deadline(id) end
count = count + #past

-- The queue is first in, first out: a job that was overtaken by more than a lease is lost.
local doubted = at
if not idle then
  local overtaken = redis.call('GET', OVERTAKEN)
  doubted = overtaken and math.min(at, overtaken - lease_ms) or 0
end
local lost = redis.call('ZRANGEBYSCORE', WAITING, '-inf', doubted, 'LIMIT', 0, limit - count)
for _, id in ipairs(lost) do
  local tenant = redis.call('HGET', SUMMARY .. id, 'tenant')
  if not tenant then
    forget(id)
  elseif redis.call('ZSCORE', LINE .. tenant, id) then  -- its turn has not come
    redis.call('ZADD', WAITING, at + RECHECK_MS, id)
  else
    enqueue(id, WAITING, at + lease_ms)
  end
end

local today = math.floor(at / DAY_MS)
for _, of in ipairs(redis.call('ZRANGEBYSCORE', STATISTICS, '-inf', today - usage_days, 'LIMIT', 0, limit)) do
  redis.call('UNLINK', STATISTICS .. ':usage:' .. of)
  redis.call('ZREM', STATISTICS, of)
end

found[1] = count + #lost
return found
