-- Enqueues a job: id, lease in ms, key of the queue, whether it goes to the front (0 or 1), RQ's commands. From
-- now on recovery checks the position in the queue, not the due time, unless a worker has claimed the refinement
-- already, or parked it since. A refinement that no worker has begun waits in line if the queue has no room, and so
-- does one that a command let go on.
local id, lease_ms, queue, is_first = unpack(ARGV, 1, 4)
local status, holder, parked, tenant, priority, created_at, start_after = unpack(redis.call('HMGET',
  SUMMARY .. id, 'status', 'holder', 'parked', 'tenant', 'priority', 'created_at', 'start_after'))
local at = clock()
local is_new = status == 'queued' and not parked and is_first == '0'
if is_new and start_after and tonumber(start_after) > at then
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, start_after, id)
  return
end
if is_new and not has_room(queue, redis.call('ZCARD', WAITING)) then
  redis.call('ZREM', DUE, id)
  stand_in_line(id, tenant, priority, created_at, at)
  return
end
perform(5)
if status == 'queued' then leave_line(id, tenant) end
if status ~= 'queued' and status ~= 'running' then return end
if parked or is_held(holder, at) then return end
redis.call('ZREM', DUE, id)
-- A refinement that was taken from a worker must not wait for another lease if the next worker dies with the job.
if status == 'running' then lease_ms = lease_ms / 4 end
redis.call('ZADD', WAITING, at + lease_ms, id)
