-- Accepts a batch whose last part was stored: batch, tenant, record of the idempotency hash or '', its TTL in seconds,
-- hash of the body, number of lines with requests, of those that were refused, then further names and values.
-- Returns the id of the batch, or of the one that the same hash and body created; MISSING or MISMATCH.
local batch, tenant, record, record_s, body, total, invalid = unpack(ARGV, 1, 7)
local hash = BATCH .. batch
local status = redis.call('HGET', hash, 'status')
if not status then return 'MISSING' end
if status ~= 'receiving' then return batch end  -- sent twice
local known = record ~= '' and redis.call('GET', record)
if known then
  local first_body, first_id = string.match(known, '^(%S+) (%S+)$')
  return first_body == body and first_id or 'MISMATCH'
end
local at = clock()
redis.call('HSET', hash, 'status', 'running', 'created_at', at, 'next', 1, 'total', total, 'invalid', invalid,
  'pending', total - invalid, unpack(ARGV, 8))
redis.call('ZADD', BATCHES, at, batch)
if record ~= '' then
  redis.call('HSET', hash, 'idempotency', record)
  redis.call('SET', record, body .. ' ' .. batch, 'EX', record_s)
end
return batch
