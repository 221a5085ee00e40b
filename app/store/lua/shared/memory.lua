-- What goes on although the memory of Redis is full.

-- Comes before the first write of a script. Redis refuses that one if it may take memory, and no later one; this takes none.
local function go_on_when_full()
  redis.call('ZREM', DUE, '')
end
