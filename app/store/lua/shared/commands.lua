-- Commands of clients that have taken effect.

-- Returns the digest of a command that has taken effect, or false.
local function given(id, kind, command)
  return redis.call('HGET', GIVEN .. id, kind .. ' ' .. command)
end

-- Returns whether a command is about another version than the last event: `versions` is '' or nil for
-- any, else their numbers between commas.
local function differs(versions, last)
  return versions and versions ~= '' and not string.find(versions, ',' .. last .. ',', 1, true)
end

-- Records that a command takes effect.
local function record(id, kind, command, digest)
  redis.call('HSET', GIVEN .. id, kind .. ' ' .. command, digest or '')
end
