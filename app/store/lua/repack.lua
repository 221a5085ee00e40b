-- Replaces the packed record of a refinement: id, the packed value, what it becomes. What was appended since stays.
-- Returns 1, or 0 if it is another one by now.
local id, before, after = unpack(ARGV)
local entries = redis.call('XRANGE', JOURNAL .. id, '-', '+')
local first = entries[1] and entries[1][2] or {}
local at
for i = 1, #first, 2 do
  if first[i] == 'packed' and first[i + 1] == before then at = i + 1 end
end
if not at then return 0 end
first[at] = after
redis.call('UNLINK', JOURNAL .. id)
for _, entry in ipairs(entries) do redis.call('XADD', JOURNAL .. id, entry[1], unpack(entry[2])) end
return 1
