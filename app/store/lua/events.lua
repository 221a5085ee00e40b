-- What a watcher reads: id, tenant, after which number, how many at most.
-- Returns false when it is nobody's, else the entries, and the summary if the last one is terminal.
local id, owner, after, limit = unpack(ARGV)
local key = SUMMARY .. id
if redis.call('HGET', key, 'tenant') ~= owner then return false end
local entries = redis.call('XRANGE', JOURNAL .. id, '(' .. after .. '-0', '+', 'COUNT', limit)
local last = entries[#entries]
if last and ENDS[last[2][2]] then return { entries, redis.call('HGETALL', key) } end
return { entries, {} }
