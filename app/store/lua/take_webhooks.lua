-- Takes webhooks that are due, for as long as an attempt may last: maximum count, ms, nonce of the taker.
-- Returns id, number of the event, tenant and state (JSON) of each.
local limit, lease_ms, nonce = unpack(ARGV)
local at, found = clock(), {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', at, 'LIMIT', 0, limit)) do
  local id, n = string.match(member, '^(%S+) (%d+)$')
  local tenant, state = redis.call('HGET', SUMMARY .. id, 'tenant'), redis.call('HGET', DELIVERIES .. id, n)
  if tenant and state then
    redis.call('ZADD', OUTBOX, at + lease_ms, member)
    redis.call('HSET', DELIVERIES .. id, 'taken ' .. n, nonce)
    found[#found + 1] = { id, n, tenant, state }
  else
    redis.call('ZREM', OUTBOX, member)
  end
end
return found
