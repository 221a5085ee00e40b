-- Returns the state of a claimed refinement: id, token, last event known, limits_seq known.
local id, token, seen, known = unpack(ARGV)
local key = SUMMARY .. id
local held, lease, status, last, seq, stopping, finish_requested, news = unpack(redis.call('HMGET', key,
  'token', 'lease', 'status', 'last_event', 'limits_seq', 'stopping', 'finish_requested', 'news'))
if held ~= token or not lease or tonumber(last) < tonumber(seen) then return 'FENCED' end
if news then redis.call('HDEL', key, 'news') end
local limits = seq ~= known and redis.call('HGET', key, 'limits')
return state('OK', status, last, stopping, finish_requested, seq, limits)
