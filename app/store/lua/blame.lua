-- Gives up the claim of a process that died: id, name of its worker, lease in ms, attempts from which
-- on a refinement is blamed, and the error, or '' if other refinements may have caused the death.
-- Returns the status. Without effect once another worker has claimed it.
local id, name, lease_ms, attempts, failure = unpack(ARGV)
local status, holder, attempt, last, tenant, retention_ms = unpack(redis.call('HMGET', SUMMARY .. id,
  'status', 'holder', 'attempt', 'last_event', 'tenant', 'retention_ms'))
if holder ~= name then return status end

local at = clock()
release(id)
if failure == '' or status ~= 'running' or tonumber(attempt) < tonumber(attempts) then
  -- The worker that saw the death claims it again at once; another takes it if that one dies too.
  redis.call('ZADD', DUE, status == 'canceling' and at or at + lease_ms, id)
  return status
end
end_now(id, tenant, status, at, last + 1, retention_ms, failure)
publish(id)
return 'failed'
