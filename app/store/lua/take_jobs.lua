-- Takes jobs for a worker, and admits refinements from their lines to the queue for that: name of the worker, its
-- free slots, most jobs to take, key of the queue, key of its intermediate list, prefix of jobs, lease in ms,
-- weights of tenants (JSON), RQ's commands for a job (JSON, with JOB_OF and JOB_NUMBER instead of the id and the
-- number), and the ids of jobs that it has moved already.
-- Returns the number of jobs left in the queue, then id and fields of each job that it has now.
--
-- Tenants take turns. The next one is that with the lowest turn, which then grows by 1 / weight; a tenant that lines
-- up begins at the lowest of all (start-time fair queueing, Goyal, Vin and Cheng 1996).
local name, free, most, queue, intermediate, prefix, lease_ms, weights, commands = unpack(ARGV, 1, 9)
free, weights = tonumber(free), cjson.decode(weights)
local at = clock()
redis.call('ZADD', WORKERS, 'NX', at + lease_ms, name)  -- its slots go when its lease has expired

local function enqueue(id, number)
  local words = string.gsub(string.gsub(commands, JOB_OF, id), JOB_NUMBER, number)
  for _, command in ipairs(cjson.decode(words)) do redis.call(unpack(command)) end
  redis.call('ZADD', WAITING, at + lease_ms, id)
end

-- Admits the first in the line of the tenant whose turn it is; returns whether there was one.
local function admit()
  while is_anyone_in_line() do
    local tenant, turn = unpack(redis.call('ZRANGE', TURNS, 0, 0, 'WITHSCORES'))
    local id, place = unpack(redis.call('ZPOPMIN', LINE .. tenant))
    count_place(place, -1)
    local status, number, parked = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'jobs', 'parked'))
    -- Else a job that was delivered twice led to its parking.
    if status == 'queued' and not parked then
      enqueue(id, number)
      redis.call('ZADD', TURNS, turn + 1 / (weights[tenant] or 1), tenant)
      return true
    end
  end
  return false
end

-- Returns how many other workers may wait for a job: a job in the queue wakes each of them.
local function others()
  local count, reported = 0, redis.call('HGETALL', SLOTS)
  for i = 1, #reported, 2 do
    if reported[i] ~= name and tonumber(reported[i + 1]) > 0 then count = count + 1 end
  end
  return count
end

local jobs = {}
for i = 10, #ARGV do jobs[#jobs + 1] = ARGV[i] end
local wanted = math.min(free, tonumber(most)) - #jobs
redis.call('HSET', SLOTS, name, free - #jobs)
if wanted > 0 then
  local length, enough = redis.call('LLEN', queue), wanted + others()
  while length < enough and admit() do length = length + 1 end
end
for _ = 1, wanted do
  local job = redis.call('LMOVE', queue, intermediate, 'LEFT', 'RIGHT')
  if not job then break end
  jobs[#jobs + 1] = job
end
redis.call('HSET', SLOTS, name, free - #jobs)

local found = { redis.call('LLEN', queue) }
for _, job in ipairs(jobs) do
  found[#found + 1] = job
  local fields = redis.pcall('HGETALL', prefix .. job)  -- a job may be garbage in any way
  found[#found + 1] = fields.err and {} or fields
end
return found
