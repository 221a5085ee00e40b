-- Asks the worker of a refinement to pause it: id, tenant, command id, timeout and what it means (JSON), lease in
-- ms, versions. Returns OK, MISSING, DIFFERS, ENDED or STOPPING; or minus the number of the RQ job to enqueue
-- at the front of the queue if it was parked.
local id, owner, command, plan, lease_ms, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, stopping, finish_requested, holder, parked, limits, asked = unpack(
  redis.call('HMGET', key, 'tenant', 'status', 'last_event', 'stopping', 'finish_requested', 'holder',
    'parked', 'limits', 'pause'))
if tenant ~= owner then return 'MISSING' end
if given(id, 'pause', command) then return 'OK' end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or is_terminal(status) then return 'ENDED' end
if stopping or finish_requested then return 'STOPPING' end

record(id, 'pause', command)
if status == 'paused' or asked then return 'OK' end
local at, n = clock(), last + 1
write(id, n, at, 'refinement.changed', '{"limits":' .. limits .. ',"pause_requested":true}')
redis.call('HSET', key, 'pause', '{"key":"pauses/' .. n .. '",' .. string.sub(plan, 2), 'last_event', n)
publish(id)
if parked and status == 'running' then return hurried(id, tenant, at, lease_ms) end
notify(id, holder)
return 'OK'
