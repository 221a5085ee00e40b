-- Appends entries for a worker: all of them or none.
-- id, nonce of the claim, op, last event known, limits_seq relied on or '', limits_seq known, status to move to
-- or '', models under which it is parked (JSON) or '', ms that it has waited, numbers of the arguments for the summary,
-- the entries and the parts of prompts; then those (name, value), (type, data) and (name, content), and last what its
-- end adds to sums (JSON), if there is any.
-- What runs seldom stands between --{ and --}: functions that nothing else uses are defined there (BLOCK in scripts.py).
local id, nonce, op, seen, relied, known, to, models, waited_ms = unpack(ARGV, 1, 9)
local first = 13 + ARGV[10]
local last_entry = first - 1 + ARGV[11]
local last_part = last_entry + ARGV[12]
local key = SUMMARY .. id
local held, holder, status, last, done, seq, stopping, finish_requested, tenant, retention_ms,
  steps, attempt, parked_at, pause = unpack(redis.call('HMGET', key, 'nonce', 'holder', 'status', 'last_event',
    'op', 'limits_seq', 'stopping', 'finish_requested', 'tenant', 'retention_ms', 'steps', 'attempt',
    'parked_at', 'pause'))

if held ~= nonce then return 'FENCED' end
-- Redis has lost the end of the journal, in a failover or by an older copy: the worker has it. A command
-- may have taken the place of a lost entry since, but the number of the operation before this one shows it.
if tonumber(last) < tonumber(seen) or op - done > 1 then return 'SHORT ' .. done .. ' ' .. last end

local function answer(code)
  local limits = seq ~= known and redis.call('HGET', key, 'limits')
  return state(code, status, last, stopping, finish_requested, pause, seq, limits)
end

if tonumber(op) <= tonumber(done) then
  return answer(parked_at and not holder and 'PARKED' or 'OK')
end
if not holder or is_terminal(status) then return 'FENCED' end
if relied ~= '' and relied ~= seq then return answer('STALE') end

local overruled = status == 'canceling' and (to == 'succeeded' or to == 'failed')
if overruled then to = 'canceled' end
if to == 'paused' then  -- one that ends anyway does not pause for a review
  local ends_anyway = status == 'canceling' or stopping or finish_requested
  for i = first, last_entry, 2 do ends_anyway = ends_anyway or ARGV[i] == 'refinement.stopping' end
  if ends_anyway then to = '' end
end
if to ~= '' and not is_move(status .. '>' .. to) then
  return redis.error_reply('MOVE ' .. status .. ' to ' .. to .. ' is not in the table')
end

local _, at = instant()
local n, recorded, progress, asked = tonumber(last), 0, false, {}
for i = first, last_entry, 2 do
  local kind, data = ARGV[i], ARGV[i + 1]
  local left_out = kind == 'refinement.stopping' and stopping
    or kind == 'refinement.paused' and to ~= 'paused'
  if kind == 'refinement.stopping' and not stopping then stopping = cjson.decode(data).reason end
  if kind == 'step.completed' or kind == 'step.failed' then recorded = recorded + 1 end
  if kind == 'iteration.completed' then progress = true end
  if kind == 'refinement.paused' then asked[#asked + 1] = data end
  if is_end(kind) then kind = end_of(to) or kind end
  if not left_out then
    n = n + 1
    write(id, n, at, kind, data)
  end
end

if last_part > last_entry then redis.call('HSET', PROMPTS .. id, unpack(ARGV, last_entry + 1, last_part)) end
local parks = models ~= '' and status == 'running' and not stopping and not pause
local set = { 'op', op, 'last_event', string.format('%d', n) }
if n > tonumber(last) then  -- a summary changes only with an entry
  for i = 13, first - 1 do set[#set + 1] = ARGV[i] end
end
if waited_ms ~= '0' then set[#set + 1] = 'waited_ms'; set[#set + 1] = waited_ms end
if stopping then set[#set + 1] = 'stopping'; set[#set + 1] = stopping end
if recorded > 0 or progress then
  if attempt ~= '0' then set[#set + 1] = 'attempt'; set[#set + 1] = '0' end
  attempt = 0
  set[#set + 1] = 'steps'; set[#set + 1] = string.format('%d', steps + recorded)
end
if to ~= '' then  --{
  if is_terminal(to) then
    redis.call('HSET', key, unpack(set))
    set = {}
    local given = ARGV[last_part + 1]
    for _, v in ipairs({ end_refinement(id, tenant, status, to, at, retention_ms, given) }) do set[#set + 1] = v end
  elseif to == 'paused' then
    for _, v in ipairs({ begin_pause(id, tenant, status, at, asked) }) do set[#set + 1] = v end
  else
    relist(id, tenant, status, to)
    set[#set + 1] = 'status'; set[#set + 1] = to
  end
end  --}
if overruled then set[#set + 1] = 'stop_reason'; set[#set + 1] = 'canceled' end
redis.call('HSET', key, unpack(set))
if overruled then redis.call('HDEL', key, 'error') end
if parks then  --{
  release(id)
  redis.call('HSET', key, 'attempt', math.max(attempt - 1, 0))
  -- Within a tenant those go first whose permits were in vain the fewest times, so that a call that always fails
  -- cannot be every probe; then those with more steps, then the older ones.
  redis.call('HSET', key, 'parked_at', at)
  line_up(id, tenant, models, times_in_vain(id, steps + recorded) * MOST_STEPS - steps - recorded)
  redis.call('ZADD', DUE, waits_until(id), id)
end  --}
publish(id)

last = n
if to ~= '' then status = to end
return answer(parks and 'PARKED' or 'OK')
