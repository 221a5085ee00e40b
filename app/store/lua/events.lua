-- Reads events: id, tenant, number of the event before them, maximum count.
-- Returns false if the tenant has no such refinement, else the entries with one more, if there is one,
-- since the entry after a terminal one keeps its snapshot; and the summary if the journal ends here.
local id, owner, after, limit = unpack(ARGV)
local key = SUMMARY .. id
if redis.call('HGET', key, 'tenant') ~= owner then return false end
local entries = redis.call('XRANGE', JOURNAL .. id, '(' .. after .. '-0', '+', 'COUNT', limit + 1)
local last = entries[#entries]
if last and #entries <= tonumber(limit) and ENDS[last[2][2]] then return { entries, redis.call('HGETALL', key) } end
return { entries, {} }
