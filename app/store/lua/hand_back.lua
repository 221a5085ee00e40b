-- Gives up a claim: id, nonce of the claim, whether it counts as an attempt. Returns the number of the RQ job to
-- enqueue, or false.
local id, nonce, counts = unpack(ARGV)
local key = SUMMARY .. id
local held, holder, status, attempt, jobs = unpack(
  redis.call('HMGET', key, 'nonce', 'holder', 'status', 'attempt', 'jobs'))
if held ~= nonce or is_terminal(status) then return false end
if holder then  -- else the command was sent twice
  jobs = jobs + 1
  if counts == '0' then redis.call('HSET', key, 'attempt', math.max(attempt - 1, 0)) end
  redis.call('HSET', key, 'jobs', jobs)
  release(id)
  redis.call('ZADD', DUE, clock(), id)
end
return tonumber(jobs)
