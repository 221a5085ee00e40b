-- The journal of a refinement: entries, webhooks about them, messages to watchers.

-- The entries that this script has written and not published yet, by id.
local unpublished = {}

-- Returns the hash of what a webhook is about: a refinement or a batch.
local function record_of(id)
  return (string.sub(id, 1, 6) == 'batch_' and BATCH or SUMMARY) .. id
end

-- Puts the news of an entry into the outbox, if the refinement has a webhook that wants it. The field has the
-- timeout of an attempt in ms, and the types of entries.
local function tell(id, n, at, kind)
  local wanted = redis.call('HGET', SUMMARY .. id, 'webhook')
  if not wanted or not string.find(wanted, kind, 1, true) then return end
  redis.call('HSET', DELIVERIES .. id, n, '{"type":"' .. kind .. '"}')
  redis.call('ZADD', OUTBOX, at, id .. ' ' .. n)
end

-- Writes entry `n` of a journal; `at` may be a text.
local function write(id, n, at, kind, data)
  if is_told(kind) then tell(id, n, at, kind) end
  local number = string.format('%d', n)
  if data and data ~= '' then
    redis.call('XADD', JOURNAL .. id, number .. '-0', 'type', kind, 'at', at, 'data', data)
  else
    redis.call('XADD', JOURNAL .. id, number .. '-0', 'type', kind, 'at', at)
  end
  local entries = unpublished[id] or {}
  entries[#entries + 1] = { kind, number .. ' ' .. at .. ' ' .. kind, data }
  unpublished[id] = entries
end

-- Writes entry `n` of a refinement that has ended. The entry keeps the final snapshot, since that of an ended refinement is
-- composed from its summary.
local function write_after_end(id, n, at, kind, data, snapshot)
  redis.call('XADD', JOURNAL .. id, n .. '-0', 'type', kind, 'at', at, 'data', data, 'ended', snapshot)
end

-- Returns the message with these entries, a line each: number, time, type, data. It is empty if watchers must
-- read the journal: a terminal event is composed from the summary, and a long message would be kept for
-- every slow watcher.
local function message(entries)
  local words, size = {}, 0
  for i, entry in ipairs(entries) do
    local kind, head, data = unpack(entry)
    if data and data ~= '' then words[#words + 1] = head .. ' '; words[#words + 1] = data
    else words[#words + 1] = head end
    if i < #entries then words[#words + 1] = '\n' end
    size = size + #head + #(data or '')
    if is_end(kind) or size > MOST_PUBLISHED then return '' end
  end
  return table.concat(words)  -- at once: Lua reads every byte of every text that it makes
end

-- Tells the watchers of a refinement what was appended, or that something else has changed. Without a watcher
-- the message is empty and goes to replicas only, where one may still be connected after a failover.
local function publish(id)
  local channel = ENTRIES_OF .. id
  local counted = redis.call('PUBSUB', 'NUMSUB', channel)
  redis.call('PUBLISH', channel, counted[2] > 0 and message(unpublished[id] or {}) or '')
  unpublished[id] = nil
end

-- Journals that a refinement stops.
local function stop(id, n, at, reason, limit)
  local data = '{"reason":"' .. reason .. '"' .. (limit and ',"limit":"' .. limit .. '"' or '') .. '}'
  write(id, n, at, 'refinement.stopping', data)
  redis.call('HSET', SUMMARY .. id, 'stopping', reason, 'last_event', n)
  redis.call('HDEL', SUMMARY .. id, 'waiting')
  publish(id)
end
