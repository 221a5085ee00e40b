-- Cancels a refinement: id, tenant, command id, versions. Returns OK, MISSING, DIFFERS or ENDED.
local id, owner, command, versions = unpack(ARGV)
local tenant, status, last = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'status', 'last_event'))
if tenant ~= owner then return 'MISSING' end
if given(id, 'cancel', command) or status == 'canceling' or status == 'canceled' then
  return 'OK'
end
if differs(versions, last) then return 'DIFFERS ' .. last end
if is_terminal(status) then return 'ENDED' end
record(id, 'cancel', command)
cancel(id, clock())
return 'OK'
