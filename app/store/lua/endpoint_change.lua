-- Changes an endpoint of a tenant, or reads it: id, tenant, command id, what is done, URL (register) or ms of
-- overlap (rotate). Returns false if it is not registered; FULL; or whether its secret is new (0 or 1) and its fields.
local id, tenant, command, action, given = unpack(ARGV)
local list, at = ENDPOINTS .. tenant, clock()
local endpoint = list .. ':' .. id

local function answer(is_new)
  return { is_new, redis.call('HGETALL', endpoint) }
end

local function register()
  if redis.call('SISMEMBER', list, id) == 1 then return answer(0) end
  if redis.call('SCARD', list) >= MOST_ENDPOINTS then return 'FULL' end
  redis.call('HSET', endpoint, 'url', given, 'command', command .. ' new')
  redis.call('PERSIST', endpoint)
  redis.call('SADD', list, id)
  return answer(1)
end

local before, is_new = string.match(redis.call('HGET', endpoint, 'command') or '', '^(.*) (%a+)$')
if before == command then return answer(is_new == 'new' and 1 or 0) end  -- sent twice
if action == 'register' then return register() end
if redis.call('SISMEMBER', list, id) == 0 then return false end
if action == 'rotate' and redis.call('HGET', endpoint, 'rotated') == command then return answer(1) end
if action == 'read' then return answer(0) end

redis.call('HSET', endpoint, 'command', command .. (action == 'rotate' and ' new' or ' old'))
if action == 'rotate' then
  redis.call('HINCRBY', endpoint, 'secret', 1)
  redis.call('HSET', endpoint, 'rotated', command, 'previous_until', string.format('%d', at + given))
elseif action == 'resume' then
  redis.call('HDEL', endpoint, 'failures', 'failing_since', 'paused_at')
elseif action == 'remove' then
  redis.call('HDEL', endpoint, 'url')
  redis.call('SREM', list, id)
  redis.call('PEXPIRE', endpoint, KEPT_MS)  -- so that a rotated secret does not come back at once
end
return answer(action == 'rotate' and 1 or 0)
