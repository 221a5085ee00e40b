-- Stores a new refinement: id, tenant, lease in ms, request, models, data of refinement.queued,
-- record of the idempotency key and its TTL in seconds (or '', 0), metadata, then the summary fields
-- (name, value).
local id, tenant, lease_ms, request, models, queued, record, record_s, metadata = unpack(ARGV, 1, 9)
local key = SUMMARY .. id
if redis.call('EXISTS', key) == 1 then return end
local at = clock()
redis.call('HSET', key, 'tenant', tenant, 'metadata', metadata, 'status', 'queued', 'created_at', at,
  'last_event', 1, 'limits_seq', 1, 'token', 0, 'attempt', 0, 'steps', 0, 'jobs', 1,
  unpack(ARGV, 10))
redis.call('HSET', REQUEST .. id, 'request', request, 'models', models)
write(id, 1, at, 'refinement.queued', queued)
redis.call('ZADD', LIST .. tenant, 0, id)
redis.call('ZADD', LIST .. tenant .. BY_STATUS .. 'queued', 0, id)
for name, value in pairs(cjson.decode(metadata)) do
  redis.call('ZADD', LIST .. tenant .. BY_METADATA .. name .. '=' .. value, 0, id)
end
redis.call('ZADD', WAITING, at + lease_ms, id)
if record ~= '' then
  redis.call('SET', redis.call('HGET', key, 'idempotency'), record, 'EX', record_s)
end
