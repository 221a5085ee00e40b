-- The queue of RQ, and the line of each tenant before it.

-- Runs the commands that RQ recorded: from ARGV[first] on, each preceded by its number of words.
local function perform(first)
  local i = first
  while i <= #ARGV do
    local words = tonumber(ARGV[i])
    redis.call(unpack(ARGV, i + 1, i + words))
    i = i + 1 + words
  end
end

-- Whether anything stands in line. Tenants whose line has become empty keep their turn until it comes:
-- one that submits one after the other would be first each time.
local function is_anyone_in_line()
  while true do
    local tenant = redis.call('ZRANGE', TURNS, 0, 0)[1]
    if not tenant then return false end
    if redis.call('EXISTS', LINE .. tenant) == 1 then return true end
    redis.call('ZREM', TURNS, tenant)
  end
end

-- Whether a job may go straight to the queue: there are more free slots than refinements that wait (`waiting`), or
-- than jobs while nothing waits in line.
local function has_room(queue, waiting)
  local free = 0
  for _, slots in ipairs(redis.call('HVALS', SLOTS)) do free = free + slots end
  return waiting < free or redis.call('LLEN', queue) < free and not is_anyone_in_line()
end

-- Counts one more, or with -1 one less, at a place in line.
local function count_place(place, by)
  if tonumber(place) < LOW_PLACE then return end
  if redis.call('INCRBY', LOW_PRIORITY, by) <= 0 then redis.call('DEL', LOW_PRIORITY) end
end

-- Puts a refinement in the line of its tenant, for take_jobs.lua to admit it: by priority, then by age.
local function stand_in_line(id, tenant, priority, created_at, at)
  local place = created_at + (priority == 'batch' and LOW_PLACE or 0)
  local is_new = redis.call('ZADD', LINE .. tenant, place, id) == 1
  if is_new then count_place(place, 1) end
  local turn = redis.call('ZRANGE', TURNS, 0, 0, 'WITHSCORES')[2] or 0
  redis.call('ZADD', TURNS, 'NX', turn, tenant)
  redis.call('ZADD', WAITING, at + RECHECK_MS, id)
end

local function leave_line(id, tenant)
  local place = redis.call('ZSCORE', LINE .. tenant, id)
  if not place then return end
  redis.call('ZREM', LINE .. tenant, id)
  count_place(place, -1)
  is_anyone_in_line()  -- forgets the turns of those who have left
end

-- Puts a refinement back into the queue; `n` is the number of its last entry.
-- Returns the number of the RQ job to enqueue.
local function queued_again(id, tenant, from, n, at, lease_ms)
  relist(id, tenant, from, 'queued')
  redis.call('HSET', SUMMARY .. id, 'status', 'queued', 'last_event', n, 'phase', '[]')
  redis.call('ZREM', DUE, id)
  redis.call('ZADD', WAITING, at + lease_ms, id)
  publish(id)
  return redis.call('HINCRBY', SUMMARY .. id, 'jobs', 1)
end
