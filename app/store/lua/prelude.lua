-- Functions shared by all scripts. scripts.py puts in the values of what is written in capitals, and adds is_move,
-- is_terminal, is_end, is_told and end_of.

-- Returns the time in ms, as a number and as text: for a command, Redis takes as long to write a number of 13 digits
-- as to read three fields.
local function instant()
  local t = redis.call('TIME')
  local text = t[1] .. string.sub('00000' .. t[2], -6, -4)
  return tonumber(text), text
end

local function clock()
  local at = instant()
  return at
end

-- Returns since when workers have reached Redis without a break of half a lease. After a longer one
-- every lease may have expired while its worker could not renew it.
local function up_since(at, lease_ms)
  local seen, since = unpack(redis.call('HMGET', UP, 'seen', 'since'))
  if not seen or at < tonumber(seen) or at - seen > lease_ms / 2 then since = at end
  if seen and at < tonumber(seen) then  -- the clock was set back: no lease may outlast it
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, at + lease_ms, '+inf')) do
      redis.call('ZADD', WORKERS, at + lease_ms, name)
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

-- Returns the digest of a command that has taken effect, or false.
local function given(id, kind, command)
  return redis.call('HGET', GIVEN .. id, kind .. ' ' .. command)
end

-- Returns whether a command is about another version than the last event: `versions` is '' or nil for
-- any, else their numbers between commas.
local function differs(versions, last)
  return versions and versions ~= '' and not string.find(versions, ',' .. last .. ',', 1, true)
end

-- Records that a command takes effect.
local function record(id, kind, command, digest)
  redis.call('HSET', GIVEN .. id, kind .. ' ' .. command, digest or '')
end

-- Ends the claim of a refinement, and the permit with which it was made.
local function release(id)
  local holder = redis.call('HGET', SUMMARY .. id, 'holder')
  if holder then redis.call('SREM', HELD .. holder, id) end
  redis.call('HDEL', SUMMARY .. id, 'holder', 'claimant', 'permit')
end

-- Returns when a parked refinement will have waited for the longest time that its limits allow. One that was
-- set aside before it began does not wait yet.
local function waits_until(id)
  local parked_at, waited_ms, limits = unpack(
    redis.call('HMGET', SUMMARY .. id, 'parked_at', 'waited_ms', 'limits'))
  local most_s = cjson.decode(limits).max_wait_seconds or MAX_WAIT_S
  return math.floor((parked_at or clock()) + most_s * 1000 - (waited_ms or 0))
end

-- Returns how often a refinement was parked again without a step in between. Refusals because of a rate,
-- and of a model that hangs, concern all alike; others may be due to the call itself.
local function times_in_vain(id, steps)
  local before, waiting = unpack(redis.call('HMGET', SUMMARY .. id, 'in_vain', 'waiting'))
  local at, times = string.match(before or '', '^(%d+) (%d+)$')
  times = tonumber(at) == steps and times + 1 or 0
  redis.call('HSET', SUMMARY .. id, 'in_vain', string.format('%d %d', steps, times))
  for _, wait in ipairs(cjson.decode(waiting or '[]')) do
    if wait.reason ~= 'rate_limited' and wait.reason ~= 'slow' then return times end
  end
  return 0
end

-- Lines a refinement up under models (JSON): no worker holds it, until it is claimed with a permit for one of
-- them. Those of a tenant are in the order of their places.
local function line_up(id, tenant, models, place)
  redis.call('HSET', SUMMARY .. id, 'parked', models)
  for _, model in ipairs(cjson.decode(models)) do
    redis.call('SADD', PARKED, model)
    local last = redis.call('ZREVRANGE', PARKED .. ':' .. model, 0, 0, 'WITHSCORES')[2] or 0
    redis.call('ZADD', PARKED .. ':' .. model, 'NX', last + 1, tenant)
    redis.call('ZADD', PARKED_OF .. tenant .. ':' .. model, place, id)
  end
end

-- Takes a refinement out of the sets in which it is parked. The time until it is claimed still counts as
-- waiting.
local function unpark(id, tenant)
  local models = redis.call('HGET', SUMMARY .. id, 'parked')
  if not models then return end
  redis.call('HDEL', SUMMARY .. id, 'parked')
  redis.call('SREM', ASIDE, id)
  for _, model in ipairs(cjson.decode(models)) do
    local waiting, turns = PARKED_OF .. tenant .. ':' .. model, PARKED .. ':' .. model
    redis.call('ZREM', waiting, id)
    if redis.call('EXISTS', waiting) == 0 then redis.call('ZREM', turns, tenant) end
    if redis.call('EXISTS', turns) == 0 then redis.call('SREM', PARKED, model) end
  end
end

-- Counts the memory that a refinement takes for its tenant, in place of what was counted before.
local function count_bytes(id, tenant)
  local bytes = 0
  for _, kind in ipairs({ SUMMARY, JOURNAL, REQUEST, PROMPTS }) do
    bytes = bytes + (redis.call('MEMORY', 'USAGE', kind .. id, 'SAMPLES', '0') or 0)
  end
  local before = redis.call('HGET', SUMMARY .. id, 'bytes') or 0
  redis.call('HSET', SUMMARY .. id, 'bytes', bytes)
  redis.call('HINCRBY', STORED, tenant, bytes - before)
end

-- Returns a quota for refinements that a tenant has reached, and its value; nothing if there is none. With
-- `only`, the names of quotas, the others do not count.
local function reached(tenant, only)
  local stored = redis.call('HGET', TENANTS, tenant)
  if not stored then return end
  local quotas, by_status = cjson.decode(stored), LIST .. tenant .. BY_STATUS
  local queued = redis.call('ZCARD', by_status .. 'queued')
  local held = redis.call('ZCARD', by_status .. 'running') + redis.call('ZCARD', by_status .. 'canceling')
  local spent = SPENT .. tenant .. ':' .. math.floor(clock() / DAY_MS)
  local tokens, cost_usd = unpack(redis.call('HMGET', spent, 'tokens', 'cost_usd'))
  local uses = { queued = queued, in_flight = queued + held, tokens_per_day = tonumber(tokens or 0),
    cost_usd_per_day = tonumber(cost_usd or 0),
    bytes_stored = tonumber(redis.call('HGET', STORED, tenant) or 0) }
  for quota, used in pairs(uses) do
    local most = quotas[quota]
    local counts = not only or only[quota]
    if counts and most and most ~= cjson.null and used >= most then return quota, most end
  end
end

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

-- Writes the record of a new refinement with its first entry, apart from its request; `summary` has names and
-- values, `queued` is the data of the entry, `prompt_nonce` counts unless the tenant has one for prompts that
-- begin like this one, which `begins` tells. The caller puts it into the queue, and counts its bytes.
local function create(id, tenant, at, deadline, metadata, queued, prompt_nonce, begins, summary)
  local key = SUMMARY .. id
  redis.call('HSET', key, 'tenant', tenant, 'metadata', metadata, 'status', 'queued', 'created_at', at,
    'last_event', '1', 'limits_seq', '1', 'token', '0', 'attempt', '0', 'steps', '0', 'jobs', '1', unpack(summary))
  if deadline ~= '' then
    redis.call('HSET', key, 'deadline', deadline)
    redis.call('ZADD', DEADLINES, deadline, id)
  end
  if begins ~= '' then
    local of_day = PROMPT_NONCE .. tenant .. ':' .. math.floor(at / DAY_MS) .. ':' .. begins
    redis.call('SET', of_day, prompt_nonce, 'NX', 'PX', DAY_MS)
    prompt_nonce = redis.call('GET', of_day)
  end
  redis.call('HSET', REQUEST .. id, 'prompt_nonce', prompt_nonce)
  write(id, 1, at, 'refinement.queued', queued)
  redis.call('ZADD', LIST .. tenant, '0', id)
  redis.call('ZADD', LIST .. tenant .. BY_STATUS .. 'queued', '0', id)
  for name, value in pairs(cjson.decode(metadata)) do
    redis.call('ZADD', LIST .. tenant .. BY_METADATA .. name .. '=' .. value, '0', id)
  end
end

local function relist(id, tenant, from, to)
  redis.call('ZREM', LIST .. tenant .. BY_STATUS .. from, id)
  redis.call('ZADD', LIST .. tenant .. BY_STATUS .. to, '0', id)
end

-- Returns the reviews that are open, in order, each with its data and its deadline. The first is in fields of its
-- own.
local function open_reviews(id)
  local asked, approvals, others, since = unpack(redis.call('HMGET', SUMMARY .. id,
    'review', 'approvals', 'also_asked', 'paused_at'))
  local open = { { asked = asked, approvals = approvals or '[]' } }
  for _, it in ipairs(cjson.decode(others or '[]')) do open[#open + 1] = it end
  for _, it in ipairs(open) do
    it.data = cjson.decode(it.asked)
    it.deadline = since + math.floor(it.data.timeout_s * 1000)
  end
  return open
end

-- Stores the reviews that are open, of which there is at least one.
local function keep_open(id, open)
  local key, others, soonest = SUMMARY .. id, {}, open[1].deadline
  for i, it in ipairs(open) do
    soonest = math.min(soonest, it.deadline)
    if i > 1 then others[i - 1] = { asked = it.asked, approvals = it.approvals } end
  end
  redis.call('HSET', key, 'review', open[1].asked, 'approvals', open[1].approvals,
    'review_until', open[1].deadline)
  redis.call('HDEL', key, 'also_asked')
  if #others > 0 then redis.call('HSET', key, 'also_asked', cjson.encode(others)) end
  redis.call('ZADD', DUE, soonest, id)
end

-- Returns the summary fields of a refinement that waits for reviews, and updates everything else: no worker
-- holds it. `asked` has the data of each refinement.paused.
local function begin_pause(id, tenant, from, at, asked)
  local open = {}
  for i, it in ipairs(asked) do
    local deadline = at + math.floor(cjson.decode(it).timeout_s * 1000)
    open[i] = { asked = it, approvals = '[]', deadline = deadline }
  end
  relist(id, tenant, from, 'paused')
  release(id)
  redis.call('HDEL', SUMMARY .. id, 'pause')
  keep_open(id, open)
  return 'status', 'paused', 'attempt', 0, 'paused_at', at
end

-- Journals the decision about the draft under review: `decision` is the data without its key.
local function reviewed(id, n, at, asked, decision)
  local it, said = cjson.decode(asked), cjson.decode(decision)
  write(id, n, at, 'refinement.reviewed',
    '{"key":"' .. it.key .. '",' .. string.sub(decision, 2))
  if said.action == 'resume' then return end  -- nothing was decided
  redis.call('HINCRBY', SUMMARY .. id, 'steps', 1)
  redis.call('HSET', SUMMARY .. id, 'reviewed', cjson.encode({ key = it.key, action = said.action,
    by = said.by, reviewer = said.reviewer, approved_by = said.approved_by }))
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

-- The same for a paused one.
local function unpaused(id, tenant, n, at, lease_ms)
  local key = SUMMARY .. id
  local since, before = unpack(redis.call('HMGET', key, 'paused_at', 'paused_ms'))
  redis.call('HDEL', key, 'review', 'approvals', 'also_asked', 'paused_at', 'review_until')
  redis.call('HSET', key, 'paused_ms', (before or 0) + at - since)
  return queued_again(id, tenant, 'paused', n, at, lease_ms)
end

-- Journals that a refinement stops.
local function stop(id, n, at, reason, limit)
  local data = '{"reason":"' .. reason .. '"' .. (limit and ',"limit":"' .. limit .. '"' or '') .. '}'
  write(id, n, at, 'refinement.stopping', data)
  redis.call('HSET', SUMMARY .. id, 'stopping', reason, 'last_event', n)
  redis.call('HDEL', SUMMARY .. id, 'waiting')
  publish(id)
end

-- Makes a paused refinement end with its best draft once a worker has claimed it; without one, which only a
-- requested pause allows, as soon as a draft is judged.
local function finished_early(id, tenant, n, at, lease_ms)
  if redis.call('HEXISTS', SUMMARY .. id, 'best') == 0 then
    redis.call('HSET', SUMMARY .. id, 'finish_requested', 1)
    return unpaused(id, tenant, n - 1, at, lease_ms)
  end
  stop(id, n, at, 'finished_early')
  return unpaused(id, tenant, n, at, lease_ms)
end

-- Makes a refinement that no worker holds be claimed before others. Returns minus the number of the RQ
-- job to enqueue: its place is the front of the queue.
local function hurried(id, tenant, at, lease_ms)
  unpark(id, tenant)
  leave_line(id, tenant)
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, at + lease_ms / 4, id)  -- unless the job is enqueued
  return -redis.call('HINCRBY', SUMMARY .. id, 'jobs', 1)
end

-- Returns what a refinement has consumed so far by model (JSON), the numbers of ModelUse in usage.py.
local function used_by(id)
  return redis.call('HGET', SUMMARY .. id, 'used') or '{}'
end

-- Adds numbers to those of a field in the usage of a day, `OUTCOME STRATEGY KEY MODEL`.
local function add_use(day, ends_as, key, model, numbers)
  local field = ends_as .. ' ' .. key .. ' ' .. model
  local before = redis.call('HGET', day, field)
  if not before and redis.call('HLEN', day) >= MOST_USED then
    field = ends_as .. ' ' .. OTHER .. ' ' .. (model == '' and '' or OTHER)
    before = redis.call('HGET', day, field)
  end
  local sums, i = {}, 0
  for number in string.gmatch(before or '0 0 0 0 0 0 0', '%S+') do
    i = i + 1
    sums[i] = string.format('%.0f', number + numbers[i])
  end
  redis.call('HSET', day, field, table.concat(sums, ' '))
end

-- Counts an ending, and what a refinement has consumed since it ended before, in the usage of its tenant's day.
local function count_usage(id, tenant, outcome, at)
  local strategy, api_key, counted = unpack(redis.call('HMGET', SUMMARY .. id, 'strategy', 'api_key', 'counted'))
  local number = math.floor(at / DAY_MS)
  local day, ends_as = USAGE .. ':' .. tenant .. ':' .. number, outcome .. ' ' .. strategy
  local before = cjson.decode(counted or '{}')
  add_use(day, ends_as, api_key or '-', '', { 1, 0, 0, 0, 0, 0, 0 })
  for model, numbers in pairs(cjson.decode(used_by(id))) do
    local since, is_new = { 1 }, false
    for i, sum in ipairs(numbers) do
      since[i + 1] = sum - ((before[model] or {})[i] or 0)
      is_new = is_new or since[i + 1] > 0
    end
    if is_new then add_use(day, ends_as, api_key or '-', model, since) end
  end
  redis.call('ZADD', USAGE, number, tenant .. ':' .. number)
end

-- Returns the summary fields of an ended refinement, and updates everything outside the summary. What its worker
-- told of it must be stored before.
local function ended(id, tenant, from, to, at, retention_ms)
  local expires = at + retention_ms
  count_bytes(id, tenant)
  relist(id, tenant, from, to)
  release(id)
  unpark(id, tenant)
  if from == 'queued' then leave_line(id, tenant) end
  local outcome = to
  if to == 'succeeded' then
    local best, passed = unpack(redis.call('HMGET', SUMMARY .. id, 'best', 'best_passed'))
    outcome = passed == 'true' and 'passed' or best and 'best_effort' or 'failed'
  end
  count_usage(id, tenant, outcome, at)
  redis.call('HDEL', SUMMARY .. id, 'review', 'approvals', 'also_asked', 'paused_at', 'review_until',
    'waiting', 'parked_at', 'in_vain', 'pause')
  redis.call('ZREM', WAITING, id)
  redis.call('ZREM', DEADLINES, id)
  local is_stored = redis.call('HGET', SUMMARY .. id, 'store') ~= '0'
  redis.call('ZADD', DUE, is_stored and expires or math.min(expires, at + UNSTORED_MS), id)
  if is_stored then redis.call('ZADD', TO_PACK, at, id) end
  redis.call('HSET', SUMMARY .. id, 'outcome', outcome)
  return 'status', to, 'phase', '[]', 'ended_at', at, 'expires_at', expires
end

-- Cancels a refinement that no worker holds; `n` is the number of the entry.
local function cancel_now(id, tenant, from, at, n, retention_ms)
  write(id, n, at, end_of('canceled'))
  redis.call('HSET', SUMMARY .. id, 'last_event', n, 'stop_reason', 'canceled',
    ended(id, tenant, from, 'canceled', at, retention_ms))
end

-- Counts what the models that were drawn for a refinement have achieved, once it succeeded or failed; with
-- -1 instead of 1 takes it back, if it was counted: a retry has another ending. `drawn` has the kind
-- of the refinement and the models by seat, `achieved` gain and cost by seat. The names of the fields
-- are those of ACHIEVED_FIELDS in selection.py.
local function tally(id, tenant, at, by)
  local drawn, achieved, outcome, tallied = unpack(redis.call('HMGET', SUMMARY .. id,
    'drawn', 'achieved', 'outcome', 'tallied'))
  if not drawn or string.sub(drawn, 1, 1) ~= '{' or by < 0 and not tallied then return end
  local it, reached = cjson.decode(drawn), cjson.decode(achieved or '{}')
  local day = math.floor(at / DAY_MS)
  local key = tallied or string.format('%s%s:%s:%d', ACHIEVED, tenant, it.kind, day)
  for seat, model in pairs(it.models) do
    local name, result = seat .. ' ' .. model, reached[seat]
    if result or not string.find(seat, '/') then  -- a stage that did not begin says nothing
      local gain, cost_usd = unpack(result or { 0 })
      redis.call('HINCRBY', key, 'ended ' .. name, by)
      if outcome == 'passed' then redis.call('HINCRBY', key, 'passed ' .. name, by) end
      redis.call('HINCRBYFLOAT', key, 'gain ' .. name, string.format('%.9f', by * gain))
      redis.call('HINCRBYFLOAT', key, 'squares ' .. name, string.format('%.9f', by * gain * gain))
      if cost_usd and cost_usd ~= cjson.null then
        redis.call('HINCRBY', key, 'priced ' .. name, by)
        redis.call('HINCRBYFLOAT', key, 'cost_usd ' .. name, string.format('%.9f', by * cost_usd))
      end
    end
  end
  redis.call('PEXPIRE', key, KEPT_MS)
  if by > 0 then redis.call('HSET', SUMMARY .. id, 'tallied', key)
  else redis.call('HDEL', SUMMARY .. id, 'tallied') end
end

-- Returns the numbers of sums, packed after a `d`. Sums that cannot be read are none: an error in the middle of a claim
-- or an ending would leave half of it.
local function numbers_of(stored)
  if string.sub(stored, 1, 1) == 'd' and #stored % 8 == 1 then
    local numbers = { struct.unpack('<' .. string.rep('d', (#stored - 1) / 8), stored, 2) }
    numbers[#numbers] = nil  -- where unpacking has ended
    return numbers
  end
  return {}
end

-- Lets a key expire KEPT_MS after now, or up to a day earlier: that need not be written every time.
local function keep(key)
  if redis.call('PTTL', key) < KEPT_MS - DAY_MS then redis.call('PEXPIRE', key, KEPT_MS) end
end

-- Adds numbers to the sums in a hash: `Addition` in state.py says what is added, and `encode_addition` in codec.py
-- in which form. Nothing is kept for longer than KEPT_MS after it was last added to.
local function add(hash, addition, at)
  local decay, version, count, list, place = string.match(addition, '^(%S+) (%S+) (%d+) (%S*)\n()')
  decay, count = tonumber(decay), tonumber(count)
  local names, added = {}, {}
  for i = 1, count do
    names[i], added[i], place = struct.unpack('<I4c0I4c0', addition, place)
  end
  names[count + 1] = 'version'
  local before, room = redis.call('HMGET', hash, unpack(names)), nil
  local newer = version ~= '-' and version - (before[#names] or 0)
  if newer and newer < 0 then return end
  if newer and newer > 0 then
    redis.call('UNLINK', hash)
    redis.call('HSET', hash, 'version', version, 'about', string.sub(addition, place))
    before = {}
  end
  local set = {}
  for i = 1, count do
    if not before[i] then room = (room or MOST_SUMS - redis.call('HLEN', hash)) - 1 end
    if before[i] or room >= 0 then
      local sums, new = before[i] and numbers_of(before[i]) or {}, numbers_of(added[i])
      for j = 1, #new do sums[j] = (sums[j] or 0) * decay + new[j] end
      set[#set + 1] = names[i]
      set[#set + 1] = 'd' .. struct.pack('<' .. string.rep('d', #sums), unpack(sums))
    end
  end
  if #set > 0 then redis.call('HSET', hash, unpack(set)) end
  keep(hash)
  if list == '' then return end
  if redis.call('ZADD', list, at, hash) == 1 then
    redis.call('ZREMRANGEBYSCORE', list, '-inf', at - KEPT_MS)
    if redis.call('ZCARD', list) > MOST_LISTED then
      redis.call('UNLINK', redis.call('ZPOPMIN', list)[1])
    end
  end
  keep(list)
end

-- Returns the state for a worker, with the limits only if it does not have them yet.
local function state(code, status, n, stopping, finish_requested, pause, seq, limits)
  return code .. ' ' .. status .. ' ' .. n .. ' ' .. (stopping or '-') .. ' '
    .. (finish_requested or '0') .. ' ' .. (pause or '-') .. ' ' .. seq .. ' ' .. (limits or '')
end

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
  local key, at = SUMMARY .. id, clock()
  local tenant, metadata, best, scores, failure, expires, idempotency = unpack(redis.call('HMGET', key,
    'tenant', 'metadata', 'best', 'scores', 'error', 'expires_at', 'idempotency'))
  local function judged(it)  -- the paths of parts have names that a client gave
    it.path = string.match(it.path, '^iterations/%d+$') or ''
    if it.sha256 then it.sha256 = '' end
    return cjson.encode(it)
  end
  unlist_metadata(id, tenant, metadata)
  for _, member in ipairs(outbox_of(id)) do redis.call('ZREM', OUTBOX, member) end
  redis.call('UNLINK', DELIVERIES .. id, JOURNAL .. id, REQUEST .. id, PROMPTS .. id, GIVEN .. id)
  redis.call('HDEL', key, 'excerpt', 'result', 'lacks', 'phase', 'origin', 'reviewed')
  redis.call('HSET', key, 'metadata', '{}', 'erased_at', at)
  if best then redis.call('HSET', key, 'best', judged(cjson.decode(best))) end
  if scores then
    local kept = {}
    for i, it in ipairs(cjson.decode(scores)) do kept[i] = judged(it) end
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

-- Takes a refinement that goes out of the batch that it belongs to.
local function leave_batch(id, tenant, outcome, batch, position)
  redis.call('ZREM', LIST .. tenant .. BY_BATCH .. batch, id)
  if redis.call('EXISTS', BATCH .. batch) == 0 then return end
  redis.call('HDEL', BATCH_ITEMS .. batch, position)
  local was_live = redis.call('SREM', BATCH_LIVE .. batch, id) == 1
  if not was_live then redis.call('HINCRBY', BATCH .. batch, outcome, -1) end
  redis.call('HINCRBY', BATCH .. batch, 'erased', 1)
end

-- Deletes a refinement and everything derived from it.
local function forget(id)
  local tenant, status, outcome, metadata, idempotency, batch, position = unpack(redis.call('HMGET', SUMMARY .. id,
    'tenant', 'status', 'outcome', 'metadata', 'idempotency', 'batch', 'position'))
  if batch then leave_batch(id, tenant, outcome, batch, position) end
  if tenant then
    unpark(id, tenant)
    leave_line(id, tenant)
    redis.call('ZREM', LIST .. tenant, id)
    redis.call('HINCRBY', STORED, tenant, 0 - (redis.call('HGET', SUMMARY .. id, 'bytes') or 0))
    if redis.call('EXISTS', LIST .. tenant, LIST .. tenant .. ALL_BATCHES) == 0 then
      redis.call('HDEL', STORED, tenant)
    end
    redis.call('ZREM', LIST .. tenant .. BY_STATUS .. status, id)
    unlist_metadata(id, tenant, metadata)
  end
  if idempotency then
    local record = redis.call('GET', idempotency)
    if record and string.sub(record, -#id) == id then redis.call('DEL', idempotency) end
  end
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
  if is_live and used_by(id) ~= '{}' then count_usage(id, tenant, 'erased', clock()) end
  forget(id)
  redis.call('SET', ERASED .. id, 1, 'PX', ERASED_MS)  -- against a submission that comes late
  notify(id, holder)
  publish(id)
end

-- Cancels a refinement that has not ended: at once, or as soon as the worker that holds it has stopped.
local function cancel(id, at)
  local key = SUMMARY .. id
  local tenant, status, holder, last, retention_ms = unpack(redis.call('HMGET', key,
    'tenant', 'status', 'holder', 'last_event', 'retention_ms'))
  if status == 'running' then
    last = last + 1
    write(id, last, at, 'refinement.canceling')
    relist(id, tenant, status, 'canceling')
    status = 'canceling'
    redis.call('HSET', key, 'status', status, 'last_event', last)
  end
  -- There is no need to wait for a worker whose lease has expired: if it still runs, it is fenced.
  if status ~= 'canceling' or not is_held(holder, at) then
    cancel_now(id, tenant, status, at, last + 1, retention_ms)
  end
  publish(id)
  notify(id, holder)
end

-- Counts the refinements of a batch by status, and by outcome once they have ended, and ends the batch once all have ended.
local function settle(batch, at)
  local hash, live = BATCH .. batch, BATCH_LIVE .. batch
  local seen, left = { queued = 0, running = 0, paused = 0, canceling = 0 }, 0
  for _, id in ipairs(redis.call('SMEMBERS', live)) do
    local status, outcome = unpack(redis.call('HMGET', SUMMARY .. id, 'status', 'outcome'))
    if status and not is_terminal(status) then
      seen[status], left = (seen[status] or 0) + 1, left + 1
    else
      redis.call('SREM', live, id)
      redis.call('HINCRBY', hash, outcome or 'erased', 1)
    end
  end
  for status, count in pairs(seen) do redis.call('HSET', hash, status, count) end
  local status, pending, retention_ms, webhook = unpack(
    redis.call('HMGET', hash, 'status', 'pending', 'retention_ms', 'webhook'))
  if left + pending > 0 or status ~= 'running' and status ~= 'canceling' then return end
  redis.call('HSET', hash, 'status', status == 'running' and 'completed' or 'canceled', 'ended_at', at,
    'expires_at', at + retention_ms)
  redis.call('HDEL', hash, 'waiting')
  redis.call('ZADD', BATCHES, at + retention_ms, batch)
  if webhook then
    redis.call('HSET', DELIVERIES .. batch, 1, '{"type":"' .. BATCH_COMPLETED .. '"}')
    redis.call('ZADD', OUTBOX, at, batch .. ' 1')
  end
end

-- Deletes the request of a batch that has not begun.
local function drop_request(batch, id, tenant)
  local bytes = redis.call('MEMORY', 'USAGE', REQUEST .. id, 'SAMPLES', 0)
  if not bytes then return end
  redis.call('UNLINK', REQUEST .. id)
  redis.call('HINCRBY', STORED, tenant, 0 - bytes)
  redis.call('HINCRBY', BATCH .. batch, 'bytes', 0 - bytes)
end

-- Deletes the record of a batch.
local function forget_batch(batch)
  local hash = BATCH .. batch
  local tenant, record, bytes = unpack(redis.call('HMGET', hash, 'tenant', 'idempotency', 'bytes'))
  if record then
    local known = redis.call('GET', record)
    if known and string.sub(known, -#batch) == batch then redis.call('DEL', record) end
  end
  redis.call('ZREM', BATCHES, batch)
  redis.call('ZREM', OUTBOX, batch .. ' 1')
  if tenant then
    redis.call('ZREM', LIST .. tenant .. ALL_BATCHES, batch)
    redis.call('HINCRBY', STORED, tenant, 0 - (bytes or 0))
    if redis.call('EXISTS', LIST .. tenant, LIST .. tenant .. ALL_BATCHES) == 0 then
      redis.call('HDEL', STORED, tenant)
    end
  end
  redis.call('UNLINK', hash, BATCH_ITEMS .. batch, BATCH_LIVE .. batch, DELIVERIES .. batch)
end

-- Erases up to `most` requests of a batch with what came of them, and in the end the batch itself.
-- Returns whether there is more to erase.
local function erase_some(batch, most)
  local tenant, left = unpack(redis.call('HMGET', BATCH .. batch, 'tenant', 'positions'))
  if not tenant then
    forget_batch(batch)
    return false
  end
  left = tonumber(left)
  while left > 0 and most > 0 do
    local item = redis.call('HGET', BATCH_ITEMS .. batch, left)
    local id = item and cjson.decode(item).id
    if id and redis.call('EXISTS', SUMMARY .. id) == 1 then erase(id)
    elseif id then drop_request(batch, id, tenant) end
    redis.call('HDEL', BATCH_ITEMS .. batch, left)
    left, most = left - 1, most - 1
  end
  redis.call('HSET', BATCH .. batch, 'positions', left)
  if left > 0 then return true end
  forget_batch(batch)
  redis.call('SET', ERASED .. batch, 1, 'PX', ERASED_MS)
  return false
end

-- Cancels up to `most` refinements of a batch, and deletes as many requests that have not begun.
-- Returns whether there is more to cancel.
local function cancel_some(batch, at, most)
  local hash, room = BATCH .. batch, most
  for _, id in ipairs(redis.call('SMEMBERS', BATCH_LIVE .. batch)) do
    local status = redis.call('HGET', SUMMARY .. id, 'status')
    if status and not is_terminal(status) and status ~= 'canceling' then
      if room == 0 then return true end
      cancel(id, at)
      room = room - 1
    end
  end
  local tenant, next, positions = unpack(redis.call('HMGET', hash, 'tenant', 'next', 'positions'))
  local last = math.min(positions, next + most - 1)
  for position = tonumber(next), last do
    local item = redis.call('HGET', BATCH_ITEMS .. batch, position)
    local id = item and cjson.decode(item).id
    if id then drop_request(batch, id, tenant) end
  end
  redis.call('HSET', hash, 'next', last + 1)
  settle(batch, at)
  return last < tonumber(positions)
end
