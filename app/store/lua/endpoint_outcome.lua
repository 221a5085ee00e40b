-- Records how an attempt at an endpoint ended: its key, the attempt, whether it was accepted (0 or 1), failures in a
-- row and ms of nothing else from which on it is paused. Returns whether it is paused.
local endpoint, attempt, accepted, most, pause_ms = unpack(ARGV)
local at = clock()
go_on_when_full()
if redis.call('HGET', endpoint, 'attempt') ~= attempt then  -- else it was sent twice
  redis.call('HSET', endpoint, 'attempt', attempt)
  if accepted == '1' then
    redis.call('HDEL', endpoint, 'failures', 'failing_since', 'paused_at')
    redis.call('HSET', endpoint, 'delivered_at', at)
  else
    local failures = redis.call('HINCRBY', endpoint, 'failures', 1)
    redis.call('HSETNX', endpoint, 'failing_since', at)
    local since = redis.call('HGET', endpoint, 'failing_since')
    if failures >= tonumber(most) and at - since >= tonumber(pause_ms) then
      redis.call('HSETNX', endpoint, 'paused_at', at)
    end
  end
  if redis.call('HEXISTS', endpoint, 'url') == 0 then redis.call('PEXPIRE', endpoint, KEPT_MS) end
end
return redis.call('HEXISTS', endpoint, 'paused_at')
