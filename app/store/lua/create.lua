-- Stores and queues a new refinement: id, tenant, lease in ms, key of the queue, its maximum length,
-- whether memory is nearly full (0 or 1), deadline or '', record of the idempotency key or '', its TTL in
-- seconds, hash of the body, request, models, data of refinement.queued, metadata, nonce for prompts if the
-- tenant has none for this day, encrypted secrets of the request or '', number of summary arguments, those (name, value), RQ's commands.
-- Returns id, whether it is that of an earlier submission, and summary; or MISMATCH, FULL, MEMORY, PAST, FAR
-- or QUOTA with the name and the value of the quota that the tenant has reached.
local id, tenant, lease_ms, queue, queue_max, memory, deadline, record, record_s, body, request, models,
  queued, metadata, prompt_nonce, secrets, fields = unpack(ARGV, 1, 17)
local key = SUMMARY .. id

local function answer(created, replayed)
  return { created, replayed, redis.call('HGETALL', SUMMARY .. created) }
end

if redis.call('EXISTS', key, ERASED .. id) > 0 then return answer(id, 0) end  -- sent twice
local known = record ~= '' and redis.call('GET', record)
if known then
  local first_body, first_id = string.match(known, '^(%S+) (%S+)$')
  if first_body ~= body and first_body ~= ANY_BODY then return 'MISMATCH' end
  return answer(first_id, 1)
end
if redis.call('LLEN', queue) >= tonumber(queue_max) then return 'FULL' end
if memory == '1' then return 'MEMORY' end
local quota, most = reached(tenant)
if quota then return 'QUOTA ' .. quota .. ' ' .. most end

local at = clock()
if deadline ~= '' then
  if tonumber(deadline) <= at then return 'PAST' end
  if deadline - at > DEADLINE_MS then return 'FAR' end
end

perform(18 + fields)  -- first: a job without a record is harmless
redis.call('HSET', key, 'tenant', tenant, 'metadata', metadata, 'status', 'queued', 'created_at', at,
  'last_event', 1, 'limits_seq', 1, 'token', 0, 'attempt', 0, 'steps', 0, 'jobs', 1,
  unpack(ARGV, 18, 17 + fields))
if deadline ~= '' then
  redis.call('HSET', key, 'deadline', deadline)
  redis.call('ZADD', DEADLINES, deadline, id)
end
local of_day = PROMPT_NONCE .. tenant .. ':' .. math.floor(at / DAY_MS)
redis.call('SET', of_day, prompt_nonce, 'NX', 'PX', DAY_MS)
prompt_nonce = redis.call('GET', of_day)
redis.call('HSET', REQUEST .. id, 'request', request, 'models', models, 'prompt_nonce', prompt_nonce)
if secrets ~= '' then redis.call('HSET', REQUEST .. id, 'secrets', secrets) end
write(id, 1, at, 'refinement.queued', queued)
redis.call('ZADD', LIST .. tenant, 0, id)
redis.call('ZADD', LIST .. tenant .. BY_STATUS .. 'queued', 0, id)
for name, value in pairs(cjson.decode(metadata)) do
  redis.call('ZADD', LIST .. tenant .. BY_METADATA .. name .. '=' .. value, 0, id)
end
redis.call('ZADD', WAITING, at + lease_ms, id)
if record ~= '' then
  redis.call('HSET', key, 'idempotency', record)
  redis.call('SET', record, body .. ' ' .. id, 'EX', record_s)
end
count_bytes(id, tenant)
return answer(id, 0)
