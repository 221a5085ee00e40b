-- Returns the number of workers whose heartbeat has not expired.
return redis.call('ZCOUNT', WORKERS, clock(), '+inf')
