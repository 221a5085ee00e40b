-- Cancels a refinement: id, tenant, command id, versions. Returns OK, MISSING, DIFFERS or ENDED.
local id, owner, command, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, holder, lease, last, retention_ms = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'holder', 'lease', 'last_event', 'retention_ms'))
if tenant ~= owner then return 'MISSING' end
if given(id, 'cancel', command) or status == 'canceling' or status == 'canceled' then
  return 'OK'
end
if differs(versions, last) then return 'DIFFERS ' .. last end
if TERMINAL[status] then return 'ENDED' end

local at = clock()
if status == 'running' then
  last = last + 1
  write(id, last, at, 'refinement.canceling')
  relist(id, tenant, status, 'canceling')
  status = 'canceling'
  redis.call('HSET', key, 'status', status, 'last_event', last)
end
-- There is no need to wait for a worker whose lease has expired: if it still runs, it is fenced.
if status ~= 'canceling' or not is_held(holder, lease, at) then
  cancel_now(id, tenant, status, at, last + 1, retention_ms)
end
record(id, 'cancel', command)
publish(id)
notify(id, holder)
return 'OK'
