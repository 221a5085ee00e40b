-- Writes the stub of a record that Redis has lost: id, tenant, status, metadata (JSON), when it expires, id of its batch or
-- '', object that the stub names which it replaces or '', when that one expires or '', then fields and values of the stub.
-- Returns 1, or 0 if Redis has the record, or has erased it.
local id, tenant, status, metadata, expires, batch, replaced, expired = unpack(ARGV, 1, 8)
local key, erased = SUMMARY .. id, tenant .. ' ' .. id
if redis.call('EXISTS', ERASED .. id) > 0 or tonumber(expires) <= clock() then return 0 end
if redis.call('ZSCORE', TO_ERASE, erased) or redis.call('ZSCORE', TO_ERASE, erased .. ' again') then return 0 end
if redis.call('EXISTS', key) == 1 then
  local owner, stub, name, was = unpack(redis.call('HMGET', key, 'tenant', 'stub', 'archived', 'status'))
  if owner ~= tenant or not stub or name ~= replaced then return 0 end
  redis.call('ZREM', LIST .. tenant .. BY_STATUS .. was, id)
  redis.call('UNLINK', key)
  unlist_archived(id, expired)
end
redis.call('HSET', key, unpack(ARGV, 9))
redis.call('ZADD', LIST .. tenant, 0, id)
redis.call('ZADD', LIST .. tenant .. BY_STATUS .. status, 0, id)
for name, value in pairs(cjson.decode(metadata)) do
  redis.call('ZADD', LIST .. tenant .. BY_METADATA .. name .. '=' .. value, 0, id)
end
if batch ~= '' and redis.call('EXISTS', BATCH .. batch) == 1 then
  redis.call('ZADD', LIST .. tenant .. BY_BATCH .. batch, 0, id)
end
expire_archived(id, expires)
return 1
