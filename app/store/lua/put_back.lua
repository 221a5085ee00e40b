-- Puts back a refinement that a worker cannot play, so that another one takes it: id, ms until then,
-- what the worker lacks, ms for which readiness names it.
local id, wait_ms, lacking, named_ms = unpack(ARGV)
local status, holder = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'holder'))
local at = clock()
if status ~= 'queued' and status ~= 'running' then return end
if is_held(holder, at) then return end
release(id)
redis.call('ZREM', WAITING, id)
redis.call('ZADD', DUE, at + wait_ms, id)
redis.call('ZADD', UNPLAYABLE, at + named_ms, lacking)
