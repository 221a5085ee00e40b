-- Erases a batch and its refinements: id, tenant, how much of it now. Returns MISSING, MORE to be called again, or OK.
local batch, owner, most = unpack(ARGV)
local hash = BATCH .. batch
if redis.call('HGET', hash, 'tenant') ~= owner then return 'MISSING' end
redis.call('HSET', hash, 'status', 'erasing')
redis.call('ZADD', BATCHES, clock(), batch)
return erase_some(batch, tonumber(most)) and 'MORE' or 'OK'
