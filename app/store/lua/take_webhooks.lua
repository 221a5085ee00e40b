-- Takes webhooks that are due, for as long as an attempt may last: maximum count, ms beyond that, nonce of the
-- taker.
-- Returns id, number of the event, tenant, state (JSON) and origin of each, and the time.
local limit, margin_ms, nonce = unpack(ARGV)
local at, found = clock(), {}
go_on_when_full()
for _, member in ipairs(redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', at, 'LIMIT', 0, limit)) do
  local id, n = string.match(member, '^(%S+) (%d+)$')
  local tenant, wanted, origin = unpack(redis.call('HMGET', record_of(id), 'tenant', 'webhook', 'origin'))
  local state = redis.call('HGET', DELIVERIES .. id, n)
  if tenant and state then
    redis.call('ZADD', OUTBOX, at + margin_ms + string.match(wanted, '^%d+'), member)
    redis.call('HSET', DELIVERIES .. id, 'taken ' .. n, nonce)
    found[#found + 1] = { id, n, tenant, state, origin or '', at }
  else
    redis.call('ZREM', OUTBOX, member)
  end
end
return found
