-- Changes the limits: id, tenant, command id, digest of the change if the id is the client's, limits_seq they were
-- made from, limits, versions. Limits that are in force change nothing.
-- Returns OK, REPLAYED, MISMATCH, MISSING, DIFFERS, ENDED or STALE.
local id, owner, command, digest, from, limits, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, seq, holder, parked, present = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'limits_seq', 'holder', 'parked', 'limits'))
if tenant ~= owner then return 'MISSING' end
local before = given(id, 'change', command)
if before then return before == digest and 'REPLAYED' or 'MISMATCH' end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or is_terminal(status) then return 'ENDED' end
if seq ~= from then return 'STALE' end
if digest ~= '' or limits ~= present then record(id, 'change', command, digest) end
if limits == present then return 'OK' end

write(id, last + 1, clock(), 'refinement.changed', '{"limits":' .. limits .. '}')
redis.call('HSET', key, 'limits', limits, 'limits_seq', seq + 1, 'last_event', last + 1)
if parked then redis.call('ZADD', DUE, waits_until(id), id) end
publish(id)
notify(id, holder)
return 'OK'
