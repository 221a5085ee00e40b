-- Replaces the record of an ended refinement by one value: id, number, type and time of its last entry, the value, or 0
-- and nothing else if there is nothing to pack; the signature of its texts or ''; and after how many ms it goes to the
-- archive, if there is one. Returns 1, or 0 if it stays as it is.
local id, last, kind, at, packed, signature, archive_after_ms = unpack(ARGV)
local tenant, status, last_event = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'status', 'last_event'))
local is_unpacked = redis.call('EXISTS', REQUEST .. id) == 1
if not status or not is_terminal(status) or not is_unpacked then
  redis.call('ZREM', TO_PACK, id)
  return 0
end
if last_event ~= last then return 0 end  -- it was rated meanwhile
redis.call('UNLINK', JOURNAL .. id, REQUEST .. id, PROMPTS .. id)
redis.call('XADD', JOURNAL .. id, last .. '-0', 'type', kind, 'at', at, 'packed', packed)
redis.call('ZREM', TO_PACK, id)
if signature ~= '' then redis.call('HSET', SIGNATURES .. tenant, id, signature) end
if archive_after_ms then
  redis.call('ZADD', TO_ARCHIVE, redis.call('HGET', SUMMARY .. id, 'ended_at') + archive_after_ms, id)
end
count_bytes(id, tenant)
return 1
