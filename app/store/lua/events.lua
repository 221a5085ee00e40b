-- Reads events: id, tenant, number of the event before them, maximum count.
-- Returns false if the tenant has no such refinement, UNSTORED if its text was erased, else the entries with one more, if there is one,
-- since the entry after a terminal one keeps its snapshot; the summary if the journal ends here; and the
-- number of the event that ended it, after which there are only ratings, or 0.
local id, owner, after, limit = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last_event, ended_event = unpack(
  redis.call('HMGET', key, 'tenant', 'status', 'last_event', 'ended_event'))
if tenant ~= owner then return false end
if redis.call('HEXISTS', key, 'erased_at') == 1 then return 'UNSTORED' end
local ended = is_terminal(status) and tonumber(ended_event or last_event) or 0
local entries = redis.call('XRANGE', JOURNAL .. id, '(' .. after .. '-0', '+', 'COUNT', limit + 1)
local last = entries[#entries]
if last and #entries <= tonumber(limit) and is_end(last[2][2]) then
  return { entries, redis.call('HGETALL', key), ended }
end
return { entries, {}, ended }
