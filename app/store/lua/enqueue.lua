-- Enqueues a job: id, lease in ms, RQ's commands. From now on the position in the queue is checked,
-- not the due time, unless a worker has claimed the refinement already, or parked it since.
local id, lease_ms = unpack(ARGV, 1, 2)
perform(3)
local status, holder, lease, parked = unpack(
  redis.call('HMGET', SUMMARY .. id, 'status', 'holder', 'lease', 'parked'))
local at = clock()
if status ~= 'queued' and status ~= 'running' then return end
if parked or is_held(holder, lease, at) then return end
redis.call('ZREM', DUE, id)
-- What was taken from a worker must not wait for another lease if the next one dies with the job.
if status == 'running' then lease_ms = lease_ms / 4 end
redis.call('ZADD', WAITING, at + lease_ms, id)
