-- Gives up a claim: id, token. Returns the number of the RQ job to enqueue, or false.
local id, token = unpack(ARGV)
local key = SUMMARY .. id
local held, lease, status, attempt, jobs = unpack(
  redis.call('HMGET', key, 'token', 'lease', 'status', 'attempt', 'jobs'))
if held ~= token or TERMINAL[status] then return false end
if lease then  -- else the command was sent twice
  jobs = jobs + 1
  redis.call('HSET', key, 'attempt', math.max(attempt - 1, 0), 'jobs', jobs)
  redis.call('HDEL', key, 'lease', 'claimant')
  redis.call('ZADD', DUE, clock(), id)
end
return tonumber(jobs)
