-- Returns the state of a claimed refinement: id, token, last event known, limits_seq known.
local id, token, seen, known = unpack(ARGV)
local key = SUMMARY .. id
local held, holder, status, last, seq, stopping, finish_requested = unpack(redis.call('HMGET', key,
  'token', 'holder', 'status', 'last_event', 'limits_seq', 'stopping', 'finish_requested'))
if held ~= token or not holder or tonumber(last) < tonumber(seen) then return 'FENCED' end
local limits = seq ~= known and redis.call('HGET', key, 'limits')
return state('OK', status, last, stopping, finish_requested, seq, limits)
