-- The time of Redis.

-- Returns the time in ms, as a number and as text: for a command, Redis takes as long to write a number of 13 digits
-- as to read three fields.
local function instant()
  local t = redis.call('TIME')
  local text = t[1] .. string.sub('00000' .. t[2], -6, -4)
  return tonumber(text), text
end

local function clock()
  local at = instant()
  return at
end
