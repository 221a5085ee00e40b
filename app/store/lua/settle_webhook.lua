-- Records what came of an attempt: id, number of the event, nonce of the taker, whether it was accepted (0 or
-- 1), state (JSON), ms until the next attempt or ''. Returns OK; LOST if another process has taken it since,
-- which only an acceptance overrules; or MISSING.
local id, n, nonce, accepted, state, wait_ms = unpack(ARGV)
local deliveries = DELIVERIES .. id
local before, taker = unpack(redis.call('HMGET', deliveries, n, 'taken ' .. n))
if not before then return 'MISSING' end
if taker ~= nonce and accepted == '0' then return 'LOST' end
redis.call('HDEL', deliveries, 'taken ' .. n)  -- first: what frees memory may be followed by what takes it
redis.call('HSET', deliveries, n, state)
if wait_ms == '' then
  redis.call('ZREM', OUTBOX, id .. ' ' .. n)
  if accepted == '1' then erase_delivered(id) end
else
  redis.call('ZADD', OUTBOX, clock() + wait_ms, id .. ' ' .. n)
end
return 'OK'
