-- Puts a stub in place of a record whose object was read back: id, SHA-1 of all that the object has of it, in order,
-- name of the object, what else the stub has.
-- Returns 1, or 0 if it stays as it is, since it has changed meanwhile.
local id, sha1, name, stub = unpack(ARGV)
local key, words = SUMMARY .. id, {}
local function note(fields)
  for _, word in ipairs(fields) do words[#words + 1] = word end
end
for _, of in ipairs({ SUMMARY, GIVEN, DELIVERIES }) do note(redis.call('HGETALL', of .. id)) end
for _, entry in ipairs(redis.call('XRANGE', JOURNAL .. id, '-', '+')) do
  words[#words + 1] = entry[1]
  note(entry[2])
end
if redis.sha1hex(table.concat(words)) ~= sha1 or #outbox_of(id) > 0 then return 0 end
local kept = {}
for _, field in ipairs({ 'tenant', 'status', 'outcome', 'last_event', 'metadata', 'excerpt', 'batch', 'position', 'bytes',
  'idempotency' }) do
  local value = redis.call('HGET', key, field)
  if value and (field ~= 'idempotency' or redis.call('EXISTS', value) == 1) then
    kept[#kept + 1] = field
    kept[#kept + 1] = value
  end
end
local tenant = redis.call('HGET', key, 'tenant')
redis.call('UNLINK', key, JOURNAL .. id, GIVEN .. id, DELIVERIES .. id)
redis.call('HSET', key, 'archived', name, 'stub', stub, unpack(kept))
redis.call('ZREM', TO_ARCHIVE, id)
count_bytes(id, tenant)
return 1
