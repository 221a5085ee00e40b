-- Erasing texts and whole refinements.

-- Notes that something was deleted, which is still in the append-only file.
local function note_erasure()
  redis.call('HSETNX', ERASURES, 'since', clock())
  redis.call('HINCRBY', ERASURES, 'count', 1)
end

-- Takes a refinement out of the lists by metadata.
local function unlist_metadata(id, tenant, metadata)
  for key, value in pairs(cjson.decode(metadata)) do
    redis.call('ZREM', LIST .. tenant .. BY_METADATA .. key .. '=' .. value, id)
  end
end

-- Returns the members of the outbox that are about a refinement.
local function outbox_of(id)
  local found = {}
  for _, n in ipairs(redis.call('HKEYS', DELIVERIES .. id)) do
    local member = id .. ' ' .. n
    if redis.call('ZSCORE', OUTBOX, member) then found[#found + 1] = member end
  end
  return found
end

-- Returns whether the text of an ended refinement is to be erased and was not yet.
local function is_to_be_erased(id)
  local status, store, erased = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'store', 'erased_at'))
  return status and is_terminal(status) and store == '0' and not erased
end

-- Erases all text of an ended refinement, what was derived from it, and its metadata. Status, scores, usage and
-- times stay until its retention is over.
local function erase_text(id)
  count_endings({ id })
  local key, at = SUMMARY .. id, clock()
  local tenant, metadata, best, scores, failure, expires, idempotency, began = unpack(redis.call('HMGET', key,
    'tenant', 'metadata', 'best', 'scores', 'error', 'expires_at', 'idempotency', 'continued_from'))
  local function judged(iteration)  -- the paths of parts have names that a client gave
    iteration.path = string.match(iteration.path, '^iterations/%d+$') or ''
    if iteration.sha256 then iteration.sha256 = '' end
    return cjson.encode(iteration)
  end
  unlist_metadata(id, tenant, metadata)
  for _, member in ipairs(outbox_of(id)) do redis.call('ZREM', OUTBOX, member) end
  redis.call('UNLINK', DELIVERIES .. id, JOURNAL .. id, REQUEST .. id, PROMPTS .. id, GIVEN .. id)
  redis.call('HDEL', key, 'excerpt', 'result', 'lacks', 'phase', 'origin', 'reviewed', 'drawn', 'achieved')
  redis.call('HSET', key, 'metadata', '{}', 'erased_at', at)
  if began then redis.call('HSET', key, 'continued_from', judged(cjson.decode(began))) end
  if best then redis.call('HSET', key, 'best', judged(cjson.decode(best))) end
  if scores then
    local kept = {}
    for i, iteration in ipairs(cjson.decode(scores)) do kept[i] = judged(iteration) end
    redis.call('HSET', key, 'scores', '[' .. table.concat(kept, ',') .. ']')
  end
  if failure then
    redis.call('HSET', key, 'error', '{"code":"' .. cjson.decode(failure).code .. '","detail":""}')
  end
  -- Without the hash of the body: the same key is answered with this refinement, whatever the body.
  if idempotency and redis.call('EXISTS', idempotency) == 1 then
    redis.call('SET', idempotency, ANY_BODY .. ' ' .. id, 'KEEPTTL')
  end
  redis.call('ZADD', DUE, expires, id)
  count_bytes(id, tenant)
  note_erasure()
  publish(id)
end

-- Erases the text of an ended refinement that is not to be stored, unless a webhook about it is still to be sent.
local function erase_delivered(id)
  if is_to_be_erased(id) and #outbox_of(id) == 0 then erase_text(id) end
end

-- Takes a refinement that goes out of the batch that it belongs to.
local function leave_batch(id, tenant, outcome, batch, position)
  redis.call('ZREM', LIST .. tenant .. BY_BATCH .. batch, id)
  if redis.call('EXISTS', BATCH .. batch) == 0 then return end
  redis.call('HDEL', BATCH_ITEMS .. batch, position)
  local was_live = redis.call('SREM', BATCH_LIVE .. batch, id) == 1
  if not was_live then redis.call('HINCRBY', BATCH .. batch, outcome, -1) end
  redis.call('HINCRBY', BATCH .. batch, 'erased', 1)
end

-- Deletes the record of an idempotency key, if there is one and it is that of this refinement or batch.
local function forget_key(record, id)
  local known = record and redis.call('GET', record)
  if known and string.sub(known, -#id) == id then redis.call('DEL', record) end
end

-- Counts the memory of what goes no longer for its tenant, who has no count any more once nothing is left.
local function free_bytes(tenant, bytes)
  redis.call('HINCRBY', STORED, tenant, 0 - (bytes or 0))
  if redis.call('EXISTS', LIST .. tenant, LIST .. tenant .. ALL_BATCHES) == 0 then redis.call('HDEL', STORED, tenant) end
end

-- Deletes a refinement and everything derived from it but sums: if it has ended, its ending is counted first. The objects
-- of an archived one are deleted later, and named in TO_ERASE until then.
local function forget(id)
  count_endings({ id })
  local tenant, status, outcome, metadata, idempotency, batch, position, archived, bytes = unpack(redis.call('HMGET',
    SUMMARY .. id, 'tenant', 'status', 'outcome', 'metadata', 'idempotency', 'batch', 'position', 'archived', 'bytes'))
  if archived then
    local at, objects = clock(), tenant .. ' ' .. id
    redis.call('ZADD', TO_ERASE, at, objects, at + ERASED_MS, objects .. ' again')
    redis.call('ZREM', TO_ARCHIVE, id)
  end
  if batch then leave_batch(id, tenant, outcome, batch, position) end
  if tenant then
    unpark(id, tenant)
    leave_line(id, tenant)
    redis.call('ZREM', LIST .. tenant, id)
    redis.call('HDEL', SIGNATURES .. tenant, id)
    free_bytes(tenant, bytes)
    redis.call('ZREM', LIST .. tenant .. BY_STATUS .. status, id)
    unlist_metadata(id, tenant, metadata or '{}')
  end
  forget_key(idempotency, id)
  for _, member in ipairs(outbox_of(id)) do redis.call('ZREM', OUTBOX, member) end
  release(id)
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', WAITING, id)
  redis.call('ZREM', DEADLINES, id)
  redis.call('ZREM', TO_PACK, id)
  note_erasure()
  redis.call('UNLINK', DELIVERIES .. id, SUMMARY .. id, JOURNAL .. id, REQUEST .. id, PROMPTS .. id, GIVEN .. id)
end

-- Deletes a refinement in any status; its worker and its watchers learn of it.
local function erase(id)
  local holder, tenant, status = unpack(redis.call('HMGET', SUMMARY .. id, 'holder', 'tenant', 'status'))
  local is_live = tenant and not is_terminal(status)
  if is_live and redis.call('HEXISTS', SUMMARY .. id, 'used') == 1 then add_ending(id, clock()) end
  forget(id)
  redis.call('SET', ERASED .. id, 1, 'PX', ERASED_MS)  -- against a submission that comes late
  notify(id, holder)
  publish(id)
end
