-- Restores the record of a refinement: id, id of its packed entry, the commands that write what was packed. Returns
-- 1, or 0 if it is not packed.
local id, packed = ARGV[1], ARGV[2]
local key = JOURNAL .. id
local entries = redis.call('XRANGE', key, '-', '+')
if not entries[1] or entries[1][1] ~= packed or entries[1][2][5] ~= 'packed' then return 0 end
redis.call('UNLINK', key)
perform(3)
for i = 2, #entries do redis.call('XADD', key, entries[i][1], unpack(entries[i][2])) end
redis.call('ZADD', TO_PACK, clock(), id)  -- unless it goes on
count_bytes(id, redis.call('HGET', SUMMARY .. id, 'tenant'))
return 1
