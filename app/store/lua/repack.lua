-- Replaces the packed entry of a journal: id, SHA-1 of the packed value, the commands that write the new entry.
-- Entries that were appended since stay. Returns 1, or 0 if there is no such entry.
local id, packed = ARGV[1], ARGV[2]
local key = JOURNAL .. id
local entries = redis.call('XRANGE', key, '-', '+')
local first = entries[1] and entries[1][2] or {}
if first[5] ~= 'packed' or redis.sha1hex(first[6]) ~= packed then return 0 end
redis.call('UNLINK', key)
perform(3)
for i = 2, #entries do redis.call('XADD', key, entries[i][1], unpack(entries[i][2])) end
redis.call('ZADD', TO_PACK, clock(), id)  -- unless it goes on, or is packed
local tenant = redis.call('HGET', SUMMARY .. id, 'tenant')
redis.call('HDEL', SIGNATURES .. tenant, id)
count_bytes(id, tenant)
return 1
