-- Returns the state of a claimed refinement: id, nonce of the claim, last event known, limits_seq known.
local id, nonce, seen, known = unpack(ARGV)
local key = SUMMARY .. id
local held, holder, status, last, seq, stopping, finish_requested, pause = unpack(redis.call('HMGET', key,
  'nonce', 'holder', 'status', 'last_event', 'limits_seq', 'stopping', 'finish_requested',
    'pause'))
if held ~= nonce or not holder or tonumber(last) < tonumber(seen) then return 'FENCED' end
local limits = seq ~= known and redis.call('HGET', key, 'limits')
return state('OK', status, last, stopping, finish_requested, pause, seq, limits)
