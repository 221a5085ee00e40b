-- What Redis keeps of archived records.

-- Lets a stub be due at the end of the hour in which it expires: a list of ids takes a quarter of their places in DUE.
local function expire_archived(id, expires)
  local hour = math.floor(expires / HOUR_MS)
  redis.call('ZREM', DUE, id)
  redis.call('RPUSH', EXPIRING .. ':' .. hour, id)
  redis.call('ZADD', EXPIRING, (hour + 1) * HOUR_MS, hour)
end

-- Takes a stub that goes out of that list: a retry expires later.
local function unlist_archived(id, expires)
  redis.call('LREM', EXPIRING .. ':' .. math.floor(expires / HOUR_MS), 1, id)
end
