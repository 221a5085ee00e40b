-- Puts a stub in place of a record whose object was read back: id, SHA-1 of all that the object has of it, in order,
-- name of the object, signature of what a list shows of it, fields and values of the stub beside those that scripts read.
-- Returns 1, or 0 if it stays as it is, since it has changed meanwhile.
local id, sha1, name, signature = unpack(ARGV, 1, 4)
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
local tenant, status, metadata, outcome, batch, position, idempotency, bytes, expires = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'metadata', 'outcome', 'batch', 'position', 'idempotency', 'bytes', 'expires_at'))
redis.call('UNLINK', key, JOURNAL .. id, GIVEN .. id, DELIVERIES .. id)
redis.call('HSET', key, 'tenant', tenant, 'status', status, 'archived', name, unpack(ARGV, 5))
if metadata ~= '{}' then redis.call('HSET', key, 'metadata', metadata) end
if batch then redis.call('HSET', key, 'batch', batch, 'position', position, 'outcome', outcome) end
if idempotency and redis.call('EXISTS', idempotency) == 1 then redis.call('HSET', key, 'idempotency', idempotency) end
if redis.call('HDEL', SIGNATURES .. tenant, id) == 1 then redis.call('HSET', SIGNATURES .. tenant, id, signature) end
redis.call('HINCRBY', STORED, tenant, 0 - (bytes or 0))
redis.call('ZREM', TO_ARCHIVE, id)
expire_archived(id, expires)
return 1
