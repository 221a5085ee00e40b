-- Reads, cancels or erases a batch: id, tenant, `look`, `cancel` or `erase`, how much of it to cancel or erase now.
-- Returns false if the tenant has no such batch, or not yet or not any more. Else its fields; or OK, MORE to be called again, or
-- ENDED for one that cannot be canceled.
local batch, owner, action, most = unpack(ARGV)
local hash, at = BATCH .. batch, clock()
local tenant, status = unpack(redis.call('HMGET', hash, 'tenant', 'status'))
if tenant ~= owner then return false end
if action == 'erase' then
  redis.call('HSET', hash, 'status', 'erasing')
  redis.call('ZADD', BATCHES, at, batch)
  return erase_some(batch, tonumber(most)) and 'MORE' or 'OK'
end
if status == 'receiving' or status == 'erasing' then return false end
settle(batch, at)
if action == 'look' then return redis.call('HGETALL', hash) end

local pending
status, pending = unpack(redis.call('HMGET', hash, 'status', 'pending'))
if status == 'canceled' then return 'OK' end
if status == 'completed' then return 'ENDED' end
if status == 'running' then
  redis.call('HINCRBY', hash, 'canceled', pending)
  redis.call('HSET', hash, 'status', 'canceling', 'pending', 0)
  redis.call('HDEL', hash, 'waiting')
  redis.call('ZADD', BATCHES, at, batch)
end
return cancel_some(batch, at, tonumber(most)) and 'MORE' or 'OK'
