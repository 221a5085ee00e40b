-- Returns the models for which refinements are parked, each followed by how many, at most as many as asked
-- for: maximum.
local most = tonumber(ARGV[1])
local found = {}
for _, model in ipairs(redis.call('SMEMBERS', PARKED)) do
  local count = 0
  for _, tenant in ipairs(redis.call('ZRANGE', PARKED .. ':' .. model, 0, most - 1)) do
    count = count + redis.call('ZCARD', PARKED_OF .. tenant .. ':' .. model)
    if count >= most then break end
  end
  found[#found + 1] = model
  found[#found + 1] = math.min(count, most)
end
return found
