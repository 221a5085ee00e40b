-- Parks a queued refinement for models (JSON) that are full: id, how many queued ones may be parked at a time, the models.
-- The refinement stays queued, until it is claimed with a permit like any parked one.
-- Returns whether there is nothing to do for its job now.
local id, most, models = unpack(ARGV)
local status, tenant, steps, permit, parked, stopping = unpack(redis.call('HMGET', SUMMARY .. id,
  'status', 'tenant', 'steps', 'permit', 'parked', 'stopping'))
if status ~= 'queued' or permit or stopping then return 0 end
if parked then return 1 end  -- this was sent twice, or is an old job
if models == '' or redis.call('SCARD', PARKED_QUEUED) >= tonumber(most) then return 0 end
redis.call('ZREM', WAITING, id)
redis.call('SADD', PARKED_QUEUED, id)
line_up(id, tenant, models, -steps)
redis.call('ZADD', DUE, waits_until(id), id)
return 1
