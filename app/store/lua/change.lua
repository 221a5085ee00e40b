-- Changes the limits: id, tenant, command id, limits_seq they were made from, limits,
-- versions. Returns OK, MISSING, DIFFERS, ENDED or STALE.
local id, owner, command, from, limits, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, seq, holder, parked = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'limits_seq', 'holder', 'parked'))
if tenant ~= owner then return 'MISSING' end
if given(id, 'change', command) then return 'OK' end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or is_terminal(status) then return 'ENDED' end
if seq ~= from then return 'STALE' end

write(id, last + 1, clock(), 'refinement.changed', '{"limits":' .. limits .. '}')
redis.call('HSET', key, 'limits', limits, 'limits_seq', seq + 1, 'last_event', last + 1)
if parked then redis.call('ZADD', DUE, waits_until(id), id) end
record(id, 'change', command)
publish(id)
notify(id, holder)
return 'OK'
