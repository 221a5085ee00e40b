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
redis.call('HSET', REQUEST .. id, 'request', request, 'models', models)
if secrets ~= '' then redis.call('HSET', REQUEST .. id, 'secrets', secrets) end
create(id, tenant, at, deadline, metadata, queued, prompt_nonce, { unpack(ARGV, 18, 17 + fields) })
redis.call('ZADD', WAITING, at + lease_ms, id)
if record ~= '' then
  redis.call('HSET', key, 'idempotency', record)
  redis.call('SET', record, body .. ' ' .. id, 'EX', record_s)
end
count_bytes(id, tenant)
return answer(id, 0)
