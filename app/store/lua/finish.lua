-- Asks for the best draft: id, tenant, command id. Returns OK, MISSING or ENDED.
local id, owner, command = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, best, stopping, before = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'best', 'stopping', 'finish_command'))
if tenant ~= owner then return 'MISSING' end
if before == command then return 'OK' end
if status == 'canceling' or not next(MOVES[status]) then return 'ENDED' end

redis.call('HSET', key, 'finish_command', command)
if stopping then return 'OK' end
if best then
  write(id, last + 1, clock(), 'refinement.stopping', '{"reason":"finished_early"}')
  redis.call('HSET', key, 'stopping', 'finished_early', 'last_event', last + 1, 'news', 1)
  redis.call('PUBLISH', CHANGES, id)
else
  redis.call('HSET', key, 'finish_requested', 1, 'news', 1)
end
redis.call('PUBLISH', COMMANDS, id)
return 'OK'
