-- Counts actions that may be many, in one entry per minute: tenant, by, action, about (one word), how many, a
-- word that no other call has.
-- They have a stream of their own, because they would push other actions out.
local tenant, by, action, about, many, sent = unpack(ARGV)
local log, at = COUNTED .. tenant, clock()
local now = COUNTING .. by .. ':' .. action
local id, count = redis.call('GET', now), tonumber(many)
local entry = id and redis.call('XRANGE', log, id, id)[1]
if entry then
  local before = entry[2]  -- by, action, about, count, sent, each after its name
  if before[10] == sent then return 1 end  -- sent twice
  if (' ' .. before[6] .. ' '):find(' ' .. about .. ' ', 1, true) then about = before[6]
  else about = before[6] .. ' ' .. about end
  count = count + tonumber(before[8])
end
-- No id of the other stream has so high a second part, so that pages of both have one order.
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local moment, number = at, 1000000
if last then
  local last_moment, last_number = last[1]:match('(%d+)-(%d+)')
  if tonumber(last_moment) >= at then moment, number = tonumber(last_moment), tonumber(last_number) + 1 end
end
if entry then redis.call('XDEL', log, id) end
id = string.format('%d-%d', moment, number)
redis.call('XADD', log, 'MAXLEN', '~', MOST_COUNTED, id, 'by', by, 'action', action, 'about', about, 'count', count, 'sent', sent)
redis.call('SET', now, id, 'PX', 60000 - at % 60000)
return 1
