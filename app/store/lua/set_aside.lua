-- Sets a queued refinement aside for models (JSON) that are full: id, how many may be set aside at a time, the models. The
-- refinement stays queued, until it is claimed with a permit like a parked one.
-- Returns whether there is nothing to do for its job now.
local id, most, models = unpack(ARGV)
local status, tenant, steps, permit, parked, stopping = unpack(redis.call('HMGET', SUMMARY .. id,
  'status', 'tenant', 'steps', 'permit', 'parked', 'stopping'))
if status ~= 'queued' or permit or stopping then return 0 end
if parked then return 1 end  -- this was sent twice, or is an old job
if models == '' or redis.call('SCARD', ASIDE) >= tonumber(most) then return 0 end
redis.call('ZREM', WAITING, id)
redis.call('SADD', ASIDE, id)
line_up(id, tenant, models, -steps)
redis.call('ZADD', DUE, waits_until(id), id)
return 1
