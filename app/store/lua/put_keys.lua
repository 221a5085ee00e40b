-- Writes records of API keys: maximum number of keys, then for each its id, its record before ('' if it is
-- new) and after. Returns OK, CHANGED if a record is another one, or FULL.
local added, is_written = 0, true
for i = 2, #ARGV, 3 do
  local now = redis.call('HGET', API_KEYS, ARGV[i]) or ''
  if now ~= ARGV[i + 2] then
    if now ~= ARGV[i + 1] then return 'CHANGED' end
    is_written = false
  end
  if now == '' then added = added + 1 end
end
if is_written then return 'OK' end  -- sent twice
if added > 0 and redis.call('HLEN', API_KEYS) + added > tonumber(ARGV[1]) then return 'FULL' end
for i = 2, #ARGV, 3 do redis.call('HSET', API_KEYS, ARGV[i], ARGV[i + 2]) end
local changes = redis.call('HINCRBY', ACCESS, 'closed', 1)
redis.call('HSET', ACCESS, 'version', clock() .. '.' .. changes)
return 'OK'
