-- Claims of workers: leases, holders, and what a worker is told.

-- Returns since when workers have reached Redis without a break of half a lease. After a longer one
-- every lease may have expired while its worker could not renew it.
local function up_since(at, lease_ms)
  local seen, since = unpack(redis.call('HMGET', UP, 'seen', 'since'))
  if not seen or at < tonumber(seen) or at - seen > lease_ms / 2 then since = at end
  if seen and at < tonumber(seen) then  -- the clock was set back: no lease may outlast it
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, at + lease_ms, '+inf')) do
      redis.call('ZADD', WORKERS, at + lease_ms, name)
    end
    for _, set in ipairs({ BATCHES, OUTBOX }) do  -- nor may anything wait longer for that
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', set, '(' .. at, '+inf')) do
        redis.call('ZINCRBY', set, at - seen, member)
      end
    end
  end
  redis.call('HSET', UP, 'seen', at, 'since', since)
  return tonumber(since)
end

-- Returns whether a worker holds a refinement: the lease of its holder is in force.
local function is_held(holder, at)
  local lease = holder and redis.call('ZSCORE', WORKERS, holder)
  return lease and tonumber(lease) > at
end

-- Makes the holder of a refinement look at it, even if the worker misses the message.
local function notify(id, holder)
  if holder then
    local before = redis.call('ZSCORE', NEWS .. holder, id) or 0
    redis.call('ZADD', NEWS .. holder, math.max(clock(), before + 1), id)
    redis.call('PEXPIRE', NEWS .. holder, NEWS_MS)
  end
  redis.call('PUBLISH', COMMANDS, id)
end

-- Ends the claim of a refinement, and the permit with which it was made.
local function release(id)
  local holder = redis.call('HGET', SUMMARY .. id, 'holder')
  if holder then redis.call('SREM', HELD .. holder, id) end
  redis.call('HDEL', SUMMARY .. id, 'holder', 'claimant', 'permit')
end

-- Returns the state for a worker, with the limits only if it does not have them yet.
local function state(code, status, n, stopping, finish_requested, pause, seq, limits)
  return code .. ' ' .. status .. ' ' .. n .. ' ' .. (stopping or '-') .. ' '
    .. (finish_requested or '0') .. ' ' .. (pause or '-') .. ' ' .. seq .. ' ' .. (limits or '')
end
