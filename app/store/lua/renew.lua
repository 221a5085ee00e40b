-- Renews the lease of a worker: name, lease in ms, then id and number of every piece of news that it
-- has read. Returns id and number of those that it has not.
local name, lease_ms = ARGV[1], ARGV[2]
local at = clock()
go_on_when_full()
up_since(at, lease_ms)
redis.call('ZADD', WORKERS, at + lease_ms, name)
redis.call('SET', FORMAT, FIRST_RELEASE, 'NX')  -- Redis may have lost everything
for i = 3, #ARGV, 2 do
  if redis.call('ZSCORE', NEWS .. name, ARGV[i]) == ARGV[i + 1] then
    redis.call('ZREM', NEWS .. name, ARGV[i])
  end
end
return redis.call('ZRANGE', NEWS .. name, 0, -1, 'WITHSCORES')
