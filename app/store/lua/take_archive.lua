-- Takes ended refinements whose records are due to go to the archive, and erased ones whose objects are to be deleted:
-- maximum number of each, after how many ms they may be taken again.
-- Returns how many are to be archived, then their ids and tenants, then `TENANT ID` of those to be deleted. The endings of
-- the former are counted, and from now on an erasure of one of them deletes objects.
local most, again_ms = unpack(ARGV)
local at, found, ids = clock(), { 0 }, {}
go_on_when_full()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', TO_ARCHIVE, '-inf', at, 'LIMIT', 0, most)) do
  local tenant, status, store, stub = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'status', 'store', 'stub'))
  if not tenant or not is_terminal(status) or store == '0' or stub then
    redis.call('ZREM', TO_ARCHIVE, id)
  else
    redis.call('ZADD', TO_ARCHIVE, at + again_ms, id)
    if #outbox_of(id) == 0 then
      ids[#ids + 1] = id
      found[#found + 1] = id
      found[#found + 1] = tenant
      redis.call('HSET', SUMMARY .. id, 'archived', '')
    end
  end
end
count_endings(ids)
found[1] = #ids
for _, erased in ipairs(redis.call('ZRANGEBYSCORE', TO_ERASE, '-inf', at, 'LIMIT', 0, most)) do
  found[#found + 1] = erased
end
return found
