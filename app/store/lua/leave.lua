-- Ends the lease of a worker: name. What it still holds is due at once.
local name = ARGV[1]
redis.call('HDEL', SLOTS, name)
if redis.call('EXISTS', HELD .. name) == 1 then
  redis.call('ZADD', WORKERS, 0, name)
else
  redis.call('ZREM', WORKERS, name)
  redis.call('DEL', NEWS .. name)
end
