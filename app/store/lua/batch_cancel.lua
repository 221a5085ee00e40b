-- Cancels a batch: id, tenant, how much of it now. Returns MISSING, ENDED, MORE to be called again, or OK.
local batch, owner, most = unpack(ARGV)
local hash, at = BATCH .. batch, clock()
local tenant, status, pending = unpack(redis.call('HMGET', hash, 'tenant', 'status', 'pending'))
if tenant ~= owner or status == 'receiving' or status == 'erasing' then return 'MISSING' end
if status == 'canceled' then return 'OK' end
if status == 'running' then
  settle(batch, at)
  status, pending = unpack(redis.call('HMGET', hash, 'status', 'pending'))
end
if status == 'completed' then return 'ENDED' end
if status == 'running' then
  redis.call('HINCRBY', hash, 'canceled', pending)
  redis.call('HSET', hash, 'status', 'canceling', 'pending', 0)
  redis.call('HDEL', hash, 'waiting')
  redis.call('ZADD', BATCHES, at, batch)
end
return cancel_some(batch, at, tonumber(most)) and 'MORE' or 'OK'
