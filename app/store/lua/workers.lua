-- How many workers gave a sign of life that still holds.
return redis.call('ZCOUNT', WORKERS, clock(), '+inf')
