-- Stores and queues a new refinement: id, tenant, lease in ms, key of the queue, maximum number of waiting
-- refinements, priority, whether memory is nearly full (0 or 1), time before which it does not start or '', deadline or '', record of the idempotency key or '', its TTL in
-- seconds, hash of the body, request, models, data of refinement.queued, metadata, nonce for prompts, hash of their
-- beginning or '', encrypted secrets of the request or '', number of summary arguments, those (name, value), RQ's commands.
-- Returns id, whether an earlier submission has it, and summary; or MISMATCH, FULL, MEMORY, PAST, FAR, LATE
-- or QUOTA with the name and the value of the quota that the tenant has reached.
local id, tenant, lease_ms, queue, queue_max, priority, memory, start_after, deadline, record, record_s, body, request, models,
  queued, metadata, prompt_nonce, begins, secrets, fields = unpack(ARGV, 1, 20)
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
local waiting, most = redis.call('ZCARD', WAITING), tonumber(queue_max)
if waiting >= most then  -- a batch lets no interactive one be refused
  if priority == 'batch' or waiting - (redis.call('GET', LOW_PRIORITY) or 0) >= most then return 'FULL' end
end
if memory == '1' then return 'MEMORY' end
local quota, limit = reached(tenant)
if quota then return 'QUOTA ' .. quota .. ' ' .. limit end

local at, text = instant()
if start_after ~= '' and start_after - at > DEADLINE_MS then return 'LATE' end
if deadline ~= '' then
  if tonumber(deadline) <= at then return 'PAST' end
  if deadline - at > DEADLINE_MS then return 'FAR' end
end

if start_after ~= '' and tonumber(start_after) > at then
  redis.call('ZADD', DUE, start_after, id)  -- then recovery enqueues it
elseif has_room(queue, waiting) then
  perform(21 + fields)  -- first: a job without a record is harmless
  redis.call('ZADD', WAITING, at + lease_ms, id)
else
  stand_in_line(id, tenant, priority, at, at)
end
redis.call('HSET', REQUEST .. id, 'request', request, 'models', models)
if secrets ~= '' then redis.call('HSET', REQUEST .. id, 'secrets', secrets) end
create(id, tenant, text, deadline, metadata, queued, prompt_nonce, begins, { unpack(ARGV, 21, 20 + fields) })
if record ~= '' then
  redis.call('HSET', key, 'idempotency', record)
  redis.call('SET', record, body .. ' ' .. id, 'EX', record_s)
end
count_bytes(id, tenant)
return answer(id, 0)
