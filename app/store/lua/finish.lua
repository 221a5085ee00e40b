-- Finishes a refinement with its best draft: id, tenant, command id, lease in ms, versions.
-- Returns OK, MISSING, DIFFERS or ENDED; or the number of the RQ job to enqueue if it was paused, minus that
-- number if it was parked with a draft: the job goes to the front of the queue.
local id, owner, command, lease_ms, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, best, stopping, jobs, holder, parked = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'best', 'stopping', 'jobs', 'holder', 'parked'))
if tenant ~= owner then return 'MISSING' end
if given(id, 'finish', command) then
  return status == 'queued' and stopping and tonumber(jobs) or 'OK'
end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or is_terminal(status) then return 'ENDED' end

record(id, 'finish', command)
if status == 'paused' then return finished_early(id, tenant, last + 1, clock(), lease_ms) end
if stopping then return 'OK' end
if best then
  local at = clock()
  stop(id, last + 1, at, 'finished_early')
  if parked then return hurried(id, tenant, at, lease_ms) end
else
  redis.call('HSET', key, 'finish_requested', 1)
end
notify(id, holder)
return 'OK'
