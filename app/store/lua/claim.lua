-- Claims a refinement for an RQ job: id, job id, name of the worker, nonce, lease in ms, whether
-- suspects too, what was learnt of its kind (JSON) or '', which the first claim keeps so that every replay finds the same.
-- Returns false if there is nothing to do or it is parked, SUSPECT if it is one and those are not claimed, else token,
-- attempt, resumed, elapsed ms without pauses and waits, tenant, state, the time, ms that it has waited, ms until its
-- deadline or '', the model for which it has a permit or '', what was learnt before it began (JSON) or ''.
local id, job_id, name, nonce, lease_ms, takes_suspects, learnt = unpack(ARGV)
local claimant = job_id .. ':' .. nonce
local key = SUMMARY .. id
local status, holder, before, token, attempt, started, last, tenant, steps, seq,
  limits, stopping, finish_requested, jobs, paused_ms, anew = unpack(redis.call('HMGET', key, 'status',
    'holder', 'claimant', 'token', 'attempt', 'started_at', 'last_event', 'tenant',
    'steps', 'limits_seq', 'limits', 'stopping', 'finish_requested', 'jobs',
    'paused_ms', 'anew'))
local waited_ms, parked, parked_at, deadline, permit, pause = unpack(redis.call('HMGET', key,
  'waited_ms', 'parked', 'parked_at', 'deadline', 'permit', 'pause'))
waited_ms = tonumber(waited_ms or 0)
if not status or is_terminal(status) then return false end

local at, text = instant()
local function granted(resumed)
  return { token, attempt, resumed, at - started - (paused_ms or 0) - waited_ms, tenant,
    state('OK', status, last, stopping, finish_requested, pause, seq, limits),
    at, waited_ms, deadline and deadline - at or '', permit or '',
    redis.call('HGET', REQUEST .. id, 'learnt') or '' }
end

if before == claimant then return granted(tonumber(token) > 1 and 1 or 0) end  -- sent twice
if status ~= 'queued' and status ~= 'running' then return false end
if is_held(holder, at) then return false end
-- After an outage the holder renews first. If the holder has died, recovery enqueues the refinement again.
if holder and at - up_since(at, lease_ms) < lease_ms / 2 then return false end

if parked then  -- this is an old job: taking a permit unparks the refinement
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, waits_until(id), id)
  return false
end

if holder then  -- the holder died, or still runs and has lost this refinement
  release(id)
  notify(id, holder)
  permit = nil
end
-- Nothing was journaled since the last claim. The worker plays it elsewhere: its job is not lost.
if tonumber(attempt) > 0 and takes_suspects ~= '1' then
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, at + lease_ms / 4, id)  -- that worker may die before a child claims it
  return 'SUSPECT'
end

local n = last + 1
if status == 'queued' then
  leave_line(id, tenant)  -- if a job was delivered twice
  relist(id, tenant, 'queued', 'running')
  status = 'running'
  redis.call('HSET', key, 'status', status)
end

token, attempt, last = token + 1, attempt + 1, n
if started then
  write(id, n, text, 'refinement.resumed', '{"token":' .. token .. ',"replayed":' .. steps .. '}')
else
  write(id, n, text, 'refinement.started', '{"token":' .. token .. '}')
end
if not started and learnt ~= '' then redis.call('HSET', REQUEST .. id, 'learnt', learnt) end
local resumed = started and 1 or 0
started = started or text
if parked_at then
  waited_ms = waited_ms + at - parked_at
  redis.call('HDEL', key, 'parked_at')
  redis.call('HSET', key, 'waited_ms', waited_ms)
end
if anew then  -- after a retry the limits of time count from this claim
  paused_ms, waited_ms = at - started, 0
  redis.call('HSET', key, 'waited_ms', 0)
  redis.call('HSET', key, 'paused_ms', paused_ms)
  redis.call('HDEL', key, 'anew')
end
redis.call('HSET', key, 'token', token, 'nonce', nonce, 'attempt', attempt, 'op', '0', 'holder', name,
  'claimant', claimant, 'started_at', started, 'last_event', n, 'phase', '[]')
redis.call('SADD', HELD .. name, id)
redis.call('ZADD', WORKERS, 'GT', at + lease_ms, name)
redis.call('ZREM', DUE, id)
local place = redis.call('ZSCORE', WAITING, id)
if place then
  redis.call('ZREM', WAITING, id)
  -- An older job of the same refinement is no evidence of the position of the newest, nor is one that
  -- was enqueued at the front.
  local is_enqueued_first = parked_at or stopping
  local newest = job_id == id .. '-' .. jobs
  if newest and not is_enqueued_first and tonumber(place) > tonumber(redis.call('GET', OVERTAKEN) or 0) then
    redis.call('SET', OVERTAKEN, place)
  end
end
publish(id)
return granted(resumed)
