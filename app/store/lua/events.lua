-- Reads events: id, tenant, number of the event before them, maximum count.
-- Returns false if the tenant has no such refinement, else the entries, and the summary if the last
-- one is terminal.
local id, owner, after, limit = unpack(ARGV)
local key = SUMMARY .. id
if redis.call('HGET', key, 'tenant') ~= owner then return false end
local entries = redis.call('XRANGE', JOURNAL .. id, '(' .. after .. '-0', '+', 'COUNT', limit)
local last = entries[#entries]
if last and ENDS[last[2][2]] then return { entries, redis.call('HGETALL', key) } end
return { entries, {} }
