-- The record of a refinement, and the lists that it stands in.

-- Writes the record of a new refinement with its first entry, apart from its request; `summary` has names and
-- values, `queued` is the data of the entry, `prompt_nonce` counts unless the tenant has one for prompts that
-- begin like this one, which `begins` tells. The caller puts it into the queue, and counts its bytes.
local function create(id, tenant, at, deadline, metadata, queued, prompt_nonce, begins, summary)
  local key = SUMMARY .. id
  redis.call('HSET', key, 'tenant', tenant, 'metadata', metadata, 'status', 'queued', 'created_at', at,
    'last_event', '1', 'limits_seq', '1', 'token', '0', 'attempt', '0', 'steps', '0', 'jobs', '1', unpack(summary))
  if deadline ~= '' then
    redis.call('HSET', key, 'deadline', deadline)
    redis.call('ZADD', DEADLINES, deadline, id)
  end
  if begins ~= '' then
    local of_day = PROMPT_NONCE .. tenant .. ':' .. math.floor(at / DAY_MS) .. ':' .. begins
    redis.call('SET', of_day, prompt_nonce, 'NX', 'PX', DAY_MS)
    prompt_nonce = redis.call('GET', of_day)
  end
  redis.call('HSET', REQUEST .. id, 'prompt_nonce', prompt_nonce)
  write(id, 1, at, 'refinement.queued', queued)
  redis.call('ZADD', LIST .. tenant, '0', id)
  redis.call('ZADD', LIST .. tenant .. BY_STATUS .. 'queued', '0', id)
  for name, value in pairs(cjson.decode(metadata)) do
    redis.call('ZADD', LIST .. tenant .. BY_METADATA .. name .. '=' .. value, '0', id)
  end
end

local function relist(id, tenant, from, to)
  redis.call('ZREM', LIST .. tenant .. BY_STATUS .. from, id)
  redis.call('ZADD', LIST .. tenant .. BY_STATUS .. to, '0', id)
end
