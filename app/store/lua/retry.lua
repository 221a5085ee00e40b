-- Lets a failed refinement go on from its journal: id, tenant, command id, what was asked for, number
-- of the event that ended it, data of refinement.retried, the limits in it, the snapshot so far,
-- number of voided steps, lease in ms.
-- Returns the number of the RQ job to enqueue; or OK (a repeated command), MISMATCH, MISSING, UNSTORED, STALE,
-- PACKED, or UNFAILED and the status.
local id, owner, command, asked, from, data, limits, snapshot, voided, lease_ms = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, jobs, seq, steps = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'jobs', 'limits_seq', 'steps'))
if tenant ~= owner then return 'MISSING' end
if redis.call('HEXISTS', key, 'erased_at') == 1 then return 'UNSTORED' end
local digest, before = redis.sha1hex(asked), given(id, 'retry', command)
if before then
  if digest ~= before then return 'MISMATCH' end
  return status == 'queued' and tonumber(jobs) or 'OK'
end
if status ~= 'failed' then return 'UNFAILED ' .. status end
if last ~= from then return 'STALE' end
if redis.call('EXISTS', REQUEST .. id) == 0 then return 'PACKED' end

local at = clock()
-- The entry keeps the final snapshot: that of an ended refinement is composed from its summary.
redis.call('XADD', JOURNAL .. id, last + 1 .. '-0', 'type', 'refinement.retried', 'at', at,
  'data', data, 'ended', snapshot)
tally(id, tenant, at, -1)
local batch = redis.call('HGET', key, 'batch')
if batch and redis.call('EXISTS', BATCH .. batch) == 1 and redis.call('SADD', BATCH_LIVE .. batch, id) == 1 then
  redis.call('HINCRBY', BATCH .. batch, 'failed', -1)
  redis.call('ZADD', BATCHES, at, batch)
end
local deadline = redis.call('HGET', key, 'deadline')
if deadline and tonumber(deadline) > at then
  redis.call('ZADD', DEADLINES, deadline, id)
elseif deadline then  -- it has passed, and would end the retry at once
  redis.call('HDEL', key, 'deadline')
end
redis.call('HDEL', key, 'error', 'outcome', 'stop_reason', 'ended_at', 'expires_at', 'stopping',
  'finish_requested', 'parked_at', 'ended_event')
redis.call('ZREM', TO_PACK, id)
redis.call('HSET', key, 'limits', limits, 'limits_seq', seq + 1, 'attempt', 0, 'steps', steps - voided,
  'anew', 1, 'counted', used_by(id))
record(id, 'retry', command, digest)
return queued_again(id, tenant, status, last + 1, at, lease_ms)
