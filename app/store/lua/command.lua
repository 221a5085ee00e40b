-- Carries out a command: id, tenant, name of the command, command id, digest of what is asked for or `-` if the id is not
-- the client's, versions (numbers of the last event that it may be about, between commas, or '' for any), lease in ms, then
-- what it takes besides:
--   cancel, finish: nothing
--   pause: timeout and what that means (JSON)
--   change: limits_seq that the limits were made from, limits
--   review: number of the last event that it was decided after; and, unless it decides nothing, `reviewed` or `approved`,
--     key of the review, data of refinement.reviewed or refinement.approval_given
--   rate: number of the last event that the snapshot is of, snapshot, data of refinement.rated, what it adds to sums
--     (JSON)
--   retry: the same three for refinement.retried, the limits in it, number of voided steps
-- Returns a code, a detail, and the number of the RQ job to enqueue: minus the number for the front of the queue, 0 for
-- none. The code is OK, REPLAYED for a command that took effect before, ARCHIVED if the record must be brought back first,
-- or a refusal, with which nothing changes; the detail of a rating is the number of its event.
local id, owner, name, command, digest, versions, lease_ms = unpack(ARGV, 1, 7)
local key = SUMMARY .. id
local tenant, status, last, jobs, holder, parked, stopping, finish_requested, limits, seq, best, erased = unpack(
  redis.call('HMGET', key, 'tenant', 'status', 'last_event', 'jobs', 'holder', 'parked', 'stopping',
    'finish_requested', 'limits', 'limits_seq', 'best', 'erased_at'))

local function answer(code, detail, job)
  return { code, detail or '', job or 0 }
end

-- Records that the command takes effect.
local function taken(job, detail)
  redis.call('HSET', GIVEN .. id, name .. ' ' .. command, string.format('%s %s %d', digest, detail or '', job or 0))
  return answer('OK', detail, job)
end

-- Accepts a command that changes nothing. Only one with the client's own id is recorded: that id may come again when the
-- command would change something, and a command that is repeated forever must not fill the memory.
local function unchanged()
  return digest == '-' and answer('OK') or taken()
end

if tenant ~= owner then return answer('MISSING') end
if not limits and (digest ~= '-' or versions ~= '' or name == 'rate' or name == 'retry') then return answer('ARCHIVED') end  -- a stub
if erased and (name == 'rate' or name == 'retry') then return answer('UNSTORED') end
local before = redis.call('HGET', GIVEN .. id, name .. ' ' .. command)
if before then
  local first, said, job = string.match(before, '^(%S+) (%S*) (%S+)$')
  if first ~= digest then return answer('MISMATCH') end
  return answer('REPLAYED', said, job ~= '0' and status == 'queued' and tonumber(jobs))
end
local verdict = verdict_on(name .. ' ' .. status) or 'LATER'
if verdict == 'DONE' then return unchanged() end
if versions ~= '' and not string.find(versions, ',' .. last .. ',', 1, true) then return answer('DIFFERS', last) end
if verdict ~= 'ACTS' then return answer(verdict, status) end

local at, n = clock(), last + 1
if name == 'cancel' then  --{
  cancel(id, at)  --}

elseif name == 'finish' then  --{
  if status == 'paused' then return taken(finish_paused(id, tenant, n, at, lease_ms)) end
  if stopping then return unchanged() end
  if best then stop(id, n, at, 'finished_early') else redis.call('HSET', key, 'finish_requested', 1) end
  if best and parked then return taken(enqueue_first(id, tenant, at, lease_ms)) end
  notify(id, holder)  --}

elseif name == 'pause' then  --{
  if stopping or finish_requested then return answer('STOPPING') end
  if status == 'paused' or redis.call('HEXISTS', key, 'pause') == 1 then return unchanged() end
  write(id, n, at, 'refinement.changed', '{"limits":' .. limits .. ',"pause_requested":true}')
  redis.call('HSET', key, 'pause', '{"key":"pauses/' .. n .. '",' .. string.sub(ARGV[8], 2), 'last_event', n)
  publish(id)
  if parked and status == 'running' then return taken(enqueue_first(id, tenant, at, lease_ms)) end
  notify(id, holder)  --}

elseif name == 'change' then  --{
  if seq ~= ARGV[8] then return answer('STALE') end
  if ARGV[9] == limits then return unchanged() end
  write(id, n, at, 'refinement.changed', '{"limits":' .. ARGV[9] .. '}')
  redis.call('HSET', key, 'limits', ARGV[9], 'limits_seq', seq + 1, 'last_event', n)
  if parked then redis.call('ZADD', DUE, waits_until(id), id) end
  publish(id)
  notify(id, holder)  --}

elseif name == 'review' then  --{
  if last ~= ARGV[8] then return answer('STALE') end
  if not ARGV[9] then return answer('UNDECIDED') end
  return taken(decide(id, tenant, n, at, ARGV[9], ARGV[10], ARGV[11], lease_ms))  --}

elseif name == 'rate' then  --{
  local ratings, ended_event, store = unpack(redis.call('HMGET', key, 'ratings', 'ended_event', 'store'))
  if tonumber(ratings or 0) >= MOST_RATINGS then return answer('RATED') end
  if is_terminal(status) and not ended_event then
    if last ~= ARGV[8] then return answer('STALE') end
    write_after_end(id, n, at, 'refinement.rated', ARGV[10], ARGV[9])
    redis.call('HSET', key, 'ended_event', last)
  else
    write(id, n, at, 'refinement.rated', ARGV[10])
  end
  redis.call('HSET', key, 'last_event', n)
  redis.call('HINCRBY', key, 'ratings', 1)
  if store ~= '0' then
    count_endings({ id })  -- the sums that a rating adds to may begin with it
    for _, addition in ipairs(cjson.decode(ARGV[11])) do add(tenant, addition, at) end
    write_sums()
  end
  publish(id)
  return taken(0, n)  --}

elseif name == 'retry' then  --{
  if last ~= ARGV[8] then return answer('STALE') end
  if redis.call('EXISTS', REQUEST .. id) == 0 then return answer('PACKED') end
  write_after_end(id, n, at, 'refinement.retried', ARGV[10], ARGV[9])
  return taken(reopen(id, tenant, n, at, ARGV[11], ARGV[12], lease_ms))  --}
end
return taken()
