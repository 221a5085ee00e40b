-- Notes that the append-only file was rewritten: the number of deletions before that, and when it began. Those since
-- then are due later.
local count, began = unpack(ARGV)
local now = redis.call('HGET', ERASURES, 'count')
if now == count then
  redis.call('DEL', ERASURES)
elseif now then
  redis.call('HSET', ERASURES, 'since', math.max(began, redis.call('HGET', ERASURES, 'since')))
end
return 'OK'
