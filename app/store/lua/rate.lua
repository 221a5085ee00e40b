-- Journals a person's rating, in any status: id, tenant, command id, what was asked for, number of the last
-- event that the snapshot is of, data of refinement.rated, snapshot, what it adds to sums (key, and what `add` takes).
-- Returns OK, or for a repeated command REPLAYED, and the number of the event; or MISMATCH, MISSING, UNSTORED, STALE or RATED.
local id, owner, command, asked, from, data, snapshot = unpack(ARGV, 1, 7)
local key = SUMMARY .. id
local tenant, status, last, ended_event, ratings = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'ended_event', 'ratings'))
if tenant ~= owner then return 'MISSING' end
local is_stored, erased = redis.call('HGET', key, 'store') ~= '0', redis.call('HEXISTS', key, 'erased_at')
if erased == 1 then return 'UNSTORED' end
local digest, before = redis.sha1hex(asked), given(id, 'rate', command)
if before then
  local first, number = string.match(before, '^(%S+) (%S+)$')
  return first == digest and 'REPLAYED ' .. number or 'MISMATCH'
end
if tonumber(ratings or 0) >= MOST_RATINGS then return 'RATED' end
local is_first_after_end = is_terminal(status) and not ended_event
if is_first_after_end and last ~= from then return 'STALE' end

local n, at = last + 1, clock()
if is_first_after_end then
  -- The entry after a terminal one keeps the final snapshot.
  redis.call('XADD', JOURNAL .. id, n .. '-0', 'type', 'refinement.rated', 'at', at, 'data', data,
    'ended', snapshot)
  redis.call('HSET', key, 'ended_event', last)
else
  write(id, n, at, 'refinement.rated', data)
end
redis.call('HSET', key, 'last_event', n)
redis.call('HINCRBY', key, 'ratings', 1)
for i = 8, is_stored and #ARGV or 0, 2 do add(ARGV[i], ARGV[i + 1], at) end
record(id, 'rate', command, digest .. ' ' .. n)
publish(id)
return 'OK ' .. n
