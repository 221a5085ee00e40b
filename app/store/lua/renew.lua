-- Renews leases: worker's name, lease in ms, then id and token of each.
-- Returns the ids whose claim is lost, or for which there was a command.
local name, lease_ms = ARGV[1], ARGV[2]
local at = clock()
local expires = at + lease_ms
redis.call('ZREMRANGEBYSCORE', WORKERS, '-inf', at)
redis.call('ZADD', WORKERS, expires, name)
local look = {}
for i = 3, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local held, lease, news = unpack(redis.call('HMGET', SUMMARY .. id, 'token', 'lease', 'news'))
  if held == token and lease then
    redis.call('HSET', SUMMARY .. id, 'lease', expires)
    redis.call('ZADD', DUE, expires, id)
    redis.call('ZREM', WAITING, id)
  end
  if held ~= token or not lease or news then look[#look + 1] = id end
end
return look
