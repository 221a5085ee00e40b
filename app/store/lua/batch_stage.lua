-- Stores a part of a batch that is being received: batch, tenant, whether it is the first part, whether memory is
-- nearly full (0 or 1 each), ms after which it counts as abandoned without a further part, which may have no lines,
-- number of the last position in it. Then for each line: position, item (JSON), and id ('' for a line without a valid request), request, models,
-- nonce for prompts, encrypted secrets or '', and what is needed to create its refinement (JSON).
-- Returns OK, MISSING if the batch was erased meanwhile, MEMORY, or QUOTA with name and value of the quota.
local batch, tenant, is_first, memory, abandoned_ms, last = unpack(ARGV, 1, 6)
local hash, at, bytes = BATCH .. batch, clock(), 0
if memory == '1' then return 'MEMORY' end
local quota, most = reached(tenant, { bytes_stored = true })
if quota then return 'QUOTA ' .. quota .. ' ' .. most end
local status = redis.call('HGET', hash, 'status')
if status and status ~= 'receiving' then return 'OK' end  -- what came late
if not status then
  if is_first == '0' or redis.call('EXISTS', ERASED .. batch) == 1 then return 'MISSING' end
  redis.call('HSET', hash, 'tenant', tenant, 'status', 'receiving')
  redis.call('ZADD', LIST .. tenant .. ALL_BATCHES, 0, batch)
end
for i = 7, #ARGV, 8 do
  local position, item, id, request, models, prompt_nonce, secrets, staged = unpack(ARGV, i, i + 7)
  if redis.call('HSETNX', BATCH_ITEMS .. batch, position, item) == 1 then  -- else it was sent twice
    bytes = bytes + #item
    if id ~= '' then
      redis.call('HSET', REQUEST .. id, 'request', request, 'models', models, 'prompt_nonce', prompt_nonce,
        'staged', staged)
      if secrets ~= '' then redis.call('HSET', REQUEST .. id, 'secrets', secrets) end
      bytes = bytes + redis.call('MEMORY', 'USAGE', REQUEST .. id, 'SAMPLES', 0)
    end
  end
end
redis.call('HSET', hash, 'positions', last)
redis.call('HINCRBY', hash, 'bytes', bytes)
redis.call('HINCRBY', STORED, tenant, bytes)
redis.call('ZADD', BATCHES, at + abandoned_ms, batch)
return 'OK'
