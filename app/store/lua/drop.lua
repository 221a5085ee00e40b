-- Gives up what a worker holds and does not play: name of the worker, ids. They are due at once.
local name = ARGV[1]
for i = 2, #ARGV do
  local id = ARGV[i]
  if redis.call('HGET', SUMMARY .. id, 'holder') == name then
    release(id)
    redis.call('ZADD', DUE, clock(), id)
  else
    redis.call('SREM', HELD .. name, id)
  end
end
