-- Exchanges what a worker has seen of a model for permits to call it: key of the model, key of its
-- provider, name of the worker, time in ms or '', report (JSON). Returns JSON. docs/adr/0015.
--
-- A model is free until a limit was met. Then calls need permits, and the rate of permits follows
-- CUBIC (RFC 9438), in relation to the rate at which a call was last refused: it falls to BETA of it,
-- is there again after the time K, and then rises faster and faster. Calls of an earlier epoch than
-- the last fall do not count against the new rate.
local BETA, CLOSE_MS, EXPIRES_MS, LEASED_MS, WORKER_MS, SILENT_MS = 0.9, 5000, 3600000, 600000, 15000, 2000
local BURST_S, FAILURES, PROBE_MS, FREE_RATE, LONG_MS, SHORT_MS = 0.15, 5, 1000, 500, 2000, 60
local LONGEST_PROBE_MS = {quota_exhausted = 300000}
local OF_KEY, WORKED_MS = {unauthorized = true, quota_exhausted = true}, 600000

local model, provider, worker, at, report = unpack(ARGV)
report = cjson.decode(report)
if at == '' then at = clock() else at = tonumber(at) end

local function load(name)
  local fields, words = {}, redis.call('HGETALL', LIMIT .. name)
  for i = 1, #words, 2 do
    local is_text = words[i] == 'reason' or words[i] == 'detail'
    fields[words[i]] = is_text and words[i + 1] or tonumber(words[i + 1])
  end
  local back = (fields.at or at) - at
  for field, value in pairs(back >= 1 and fields or {}) do  -- the clock was set back: nothing may wait for it
    if string.find(field, '_at$') or string.find(field, '_until$') then fields[field] = value - back end
  end
  return fields
end

local function save(name, fields)
  local words = {}
  fields.at = at
  for field, value in pairs(fields) do
    words[#words + 1] = field
    words[#words + 1] = type(value) == 'number' and string.format('%.6f', value) or value
  end
  redis.call('DEL', LIMIT .. name)
  redis.call('HSET', LIMIT .. name, unpack(words))
  redis.call('PEXPIRE', LIMIT .. name, EXPIRES_MS)
  if string.sub(name, 1, 8) ~= 'endpoint' then  -- clients name those: no list could hold them all
    redis.call('ZADD', LIMITS, at, name)
    redis.call('ZREMRANGEBYSCORE', LIMITS, '-inf', at - EXPIRES_MS)
  end
end

-- The breaker: `open_at`, `reason`, `detail`, `probe_at`, `interval`, `probes`.
local function open(state, reason, detail)
  if not state.open_at then
    state.open_at, state.probes = at, 0
    state.interval = reason == 'quota_exhausted' and 30000 or PROBE_MS
    state.probe_at = at + state.interval
  end
  state.reason, state.detail = reason, detail
end

local function close(state)
  if not state.open_at then return false end
  state.open_at, state.reason, state.detail, state.probe_at, state.interval = nil, nil, nil, nil, nil
  state.failures, state.probes, state.is_heard = nil, nil, nil
  return true
end

-- Whether a call may find out if an open breaker can be closed.
local function probe(state)
  if at < state.probe_at then return false end
  state.interval = math.min(state.interval * 2, LONGEST_PROBE_MS[state.reason] or 30000)
  state.probe_at = at + state.interval
  state.probes = state.probes + 1
  return true
end

-- redis-py sends a command again when its answer is late: that must not count twice.
local key = LIMIT .. model
local mine, expiries, apart = key .. ':workers', key .. ':expiries', key .. ':apart'
local answered = redis.call('HGET', mine, '=' .. worker)
if answered and string.match(answered, '^%d+') == string.format('%d', report.number) then
  return string.match(answered, '^%d+ (.*)$')
end

local m, p = load(model), load(provider)
local was_leased = m.leased_until and m.leased_until > at or report.caps ~= nil
local most_at_once = report.caps and report.caps.in_flight
local silence = at - (m.at or at)
local dt = math.max(0, math.min(silence, 60000)) / 1000

-- A refused key stops all models of a provider, yet it may be that only one of them is forbidden, or
-- dearer than the credit. So each model finds out by itself, and a refused model stops no other while
-- another model works.
local function learn_from_provider()
  if report.ok > 0 then
    if close(p) then p.worked_at = at end
    p.answered_at = at
  end
  if report.key_reason then
    open(m, report.key_reason, report.detail)
    m.is_heard = nil
    if not p.worked_at or at - p.worked_at > WORKED_MS then open(p, report.key_reason, report.detail) end
  elseif p.open_at and not m.open_at then
    open(m, p.reason, p.detail)
    m.probe_at, m.is_heard = math.max(at, p.open_at + PROBE_MS), 1
  elseif m.is_heard and not p.open_at then
    close(m)
  elseif OF_KEY[m.reason] and p.worked_at and m.probe_at - m.interval < p.worked_at then
    m.probe_at = math.min(m.probe_at, at)
  end
end

local function learn_breakers()
  if report.ok > 0 then
    local was_refused = OF_KEY[m.reason]
    if close(m) and not was_refused then  -- the rate rises from a few calls a second, rather than jumping
      m.ramp, m.rate, m.level, m.tau, m.leased_until = 1, 4, 2, 0, at + LEASED_MS
      m.rate_max = m.rate_max or FREE_RATE
      m.paused_until, m.blocked = nil, nil
    end
  end
  learn_from_provider()
  m.bad, m.ok = (m.bad or 0) * 0.9 ^ dt + report.bad, (m.ok or 0) * 0.9 ^ dt + report.answered
  if report.bad == 0 and report.ok > 0 then m.failures = nil end
  if report.bad == 0 then return end
  m.failures = report.ok > 0 and 0 or (m.failures or 0) + report.bad
  if m.failures >= FAILURES or (m.bad >= 2 * FAILURES and m.bad > m.ok) then
    open(m, report.bad_reason, report.detail)
  end
end

-- Counts permits by eighths of a second, and returns those of the last second.
local function granted_lately(count)
  local eighth = math.floor(at / 125)
  local total = 0
  for i = 0, 7 do
    local slot, stamp = 'granted_' .. i, m['granted_' .. i .. '_at']
    if i == eighth % 8 and count then
      m[slot] = (stamp == eighth and m[slot] or 0) + count
      m[slot .. '_at'], stamp = eighth, eighth
    end
    if stamp and eighth - stamp < 8 then total = total + m[slot] end
  end
  return total
end

-- How long to ask nothing after refusals without a call accepted in between, in ms.
local function pause_ms(blocked)
  return math.min(250 * 2 ^ math.min(blocked, 10), blocked < 40 and 4000 or 30000)
end

-- A call was refused because of a limit.
local function fall()
  if m.paused_until and at < m.paused_until and report.retry_after < LONG_MS then return end  -- from before
  if not was_leased or not m.rate then
    m.rate_max, m.learning_until = math.max(report.recent, granted_lately(), 1), at + 2000
  elseif (m.accepted or 0) == 0 then  -- nothing is accepted now: ask now and then
    m.blocked = (m.blocked or 0) + 1
  else
    -- What was accepted within a second says as much about the limit as the rate that was meant.
    local accepted = math.max(granted_lately() - report.refused, 1)
    m.rate_max = m.rate < 4 and math.max(m.rate, 0.05) or math.max(m.rate, (m.rate + accepted) / 2)
  end
  local pause = (not m.rate or m.blocked) and pause_ms(m.blocked or 0) or SHORT_MS
  -- A shorter time concerns the call that was refused: the lower rate is enough for the others.
  if report.retry_after >= LONG_MS then pause = report.retry_after end
  m.paused_until = math.max(m.paused_until or 0, at + pause)
  if not m.blocked then m.epoch, m.accepted, m.tau, m.ramp = (m.epoch or 0) + 1, 0, 0, nil end
  m.level, m.leased_until = 0, at + LEASED_MS
end

local function learn_rate()
  if report.epoch == (m.epoch or 0) then
    m.accepted = (m.accepted or 0) + report.accepted
    if report.accepted > 0 and m.blocked then m.blocked, m.paused_until = nil, nil end
    if report.refused > 0 then fall() end
  elseif report.was_free and m.learning_until and at < m.learning_until then
    m.rate_max = m.rate_max + report.recent  -- what another worker had got through by then
  end
end

-- The rate by the time for which it was used up.
local function rise()
  local k = math.max(CLOSE_MS, 60000 / m.rate_max)
  local is_paused = m.blocked or m.paused_until and at < m.paused_until
  if m.short and not is_paused then m.tau = (m.tau or 0) + math.min(dt, 1) * 1000 end
  if m.ramp then
    m.rate = math.min(4 * 2 ^ (m.tau / 1000), m.rate_max)
    if m.rate == m.rate_max then m.ramp, m.tau = nil, k end
    if m.rate >= FREE_RATE then m.leased_until = nil end
  else
    m.rate = m.rate_max * (1 + (1 - BETA) * ((m.tau - k) / k) ^ 3)
    if m.rate >= 2 * FREE_RATE then m.leased_until = nil end
  end
end

-- Forgets the calls of workers that report no more, and returns how many calls the others have under
-- way without this worker's, and how many others there are. The sum is kept, not made of all workers.
local function others_under_way()
  if not m.calls then  -- the first report of all for an hour
    m.calls = 0
    redis.call('DEL', mine, expiries, apart)
  end
  if most_at_once and silence > SILENT_MS then  -- no worker could report: their calls go on
    for _, name in ipairs(redis.call('ZRANGE', expiries, 0, -1)) do
      if redis.call('HGET', mine, name) ~= '0' then redis.call('ZINCRBY', expiries, silence, name) end
    end
  end
  local gone = redis.call('ZRANGE', expiries, '-inf', at, 'BYSCORE')
  gone[#gone + 1] = worker
  for _, name in ipairs(gone) do
    m.calls = m.calls - (tonumber(redis.call('HGET', mine, name)) or 0)
    redis.call('HDEL', mine, name, '=' .. name)
    redis.call('ZREM', expiries, name)
  end
  return m.calls, redis.call('ZCARD', expiries)
end

-- Workers of other cells use their share of the rate even without an answer: it is kept for those that
-- are silent, of as many as there were when they fell silent. `present` is the share of the others.
local present, others, workers = 1, others_under_way()
m.away_ms = report.away_ms and math.max(report.away_ms, m.away_ms or 0) or m.away_ms
if m.away_ms then
  redis.call('ZADD', apart, at + (report.away_ms or 0), worker)
  redis.call('ZREMRANGEBYSCORE', apart, '-inf', at)
  redis.call('PEXPIRE', apart, EXPIRES_MS)
  local silent = redis.call('ZCOUNT', apart, '-inf', at + m.away_ms - SILENT_MS)
  m.sharing = math.min(silent > 0 and m.sharing or workers + 1, workers + 1)
  present = math.max(0, 1 - silent / m.sharing)
end

-- What `limits` or `caps` allow: `KIND_rate` a second, `KIND_level` now, for calls that need so much.
local function hold(kind, rate, need, most)
  local burst = math.max(rate * present, need)
  local level = m[kind .. '_level'] or burst
  m[kind .. '_level'] = math.min(level + rate * present * dt + report.returned * need, burst, most or burst)
  m[kind .. '_rate'] = rate
end

local NEEDS = { requests = 1, tokens = report.input + report.output, input_tokens = report.input,
  output_tokens = report.output }

local function hold_all()
  for kind, need in pairs(NEEDS) do
    local cap, said = report.caps and report.caps[kind], report.limits and report.limits[kind]
    if said and said.reset > 0 and said.limit > said.remaining then
      m[kind .. '_until'] = at + math.max(said.reset, 5000)
      -- Exact for a bucket that is refilled; of what a window reports only the highest counts.
      local rate = math.max((said.limit - said.remaining) / said.reset * 1000, m[kind .. '_rate'] or 0)
      if cap then rate = math.min(rate, cap / 60) end
      hold(kind, rate, need, said.remaining)
      m.leased_until = math.max(m.leased_until or 0, m[kind .. '_until'])
    elseif cap then
      hold(kind, cap / 60, need)
    elseif m[kind .. '_until'] and at < m[kind .. '_until'] then
      hold(kind, m[kind .. '_rate'], need)
    else
      m[kind .. '_rate'], m[kind .. '_level'], m[kind .. '_until'] = nil, nil, nil
    end
  end
end

-- Returns the number of calls allowed now, and the number allowed by the end of the next second.
local function allowed(in_flight)
  if m.paused_until and at < m.paused_until then return 0, 0 end
  local now, soon = report.wanted, report.wanted
  if m.rate then
    local rate = m.rate * present
    m.level = math.min((m.level or 0) + rate * dt + report.returned, math.max(1, rate * BURST_S))
    now, soon = m.level, m.level + rate
  end
  local most = m.blocked and 1 or report.wanted
  for kind, need in pairs(NEEDS) do
    local level = m[kind .. '_level']
    if level then most = math.min(most, level / need) end
  end
  most = math.min(most, (most_at_once or math.huge) - in_flight)
  local function whole(count) return math.max(0, math.floor(math.min(count, most) + 1e-6)) end
  return whole(now), whole(soon)
end

-- Returns permits for calls that wait, and for refinements that have to be claimed first: these may
-- take permits of the next second.
local function shared_out(now, soon)
  local parked = math.min(report.parked, math.ceil(soon * report.parked / math.max(1, report.wanted)))
  return math.min(report.wanted - report.parked, math.max(0, now - parked)), parked
end

local function take(count)
  granted_lately(count)
  if m.level then m.level = m.level - count end
  for kind, need in pairs(NEEDS) do
    local level = m[kind .. '_level']
    if level then m[kind .. '_level'] = level - count * need end
  end
  if m.blocked and count > 0 then m.paused_until = at + pause_ms(m.blocked + 1) end
end

learn_breakers()
learn_rate()
if m.rate_max and m.leased_until then rise() end
hold_all()
local is_leased = (m.leased_until and m.leased_until > at) or report.caps ~= nil
local opened = m.open_at and m
local granted, parked
if opened then
  local is_parked = report.wanted == report.parked
  local has_room = not most_at_once or others + report.in_flight < most_at_once
  -- Where calls in flight are limited, a parked refinement is only invited: its call asks for the probe.
  local is_invited = most_at_once and is_parked and at >= opened.probe_at
  local is_probe = report.wanted > 0 and has_room and (is_invited or probe(opened))
  parked = is_probe and is_parked and 1 or 0
  granted = is_probe and 1 - parked or 0
elseif is_leased then
  granted, parked = shared_out(allowed(others + report.in_flight))
  take(granted + parked)
  m.short = granted + parked < report.wanted and 1 or nil
else
  m.rate, m.rate_max, m.level, m.tau, m.ramp, m.blocked, m.paused_until = nil, nil, nil, nil, nil, nil, nil
  granted, parked = report.wanted - report.parked, report.parked
end
local calls = report.in_flight + granted + parked
m.calls = others + calls
save(model, m)
if next(p) then save(provider, p) end

local rate = m.rate or 0
for kind, need in pairs(NEEDS) do
  local of = m[kind .. '_rate']
  if of and (rate == 0 or of / need < rate) then rate = of / need end
end
local answer = {
  granted = granted,
  parked = parked,
  blocked = m.blocked ~= nil,
  leased = is_leased,
  epoch = m.epoch or 0,
  rate = rate,
  workers = workers + 1,
  paused_ms = math.max(0, (m.paused_until or at) - at),
}
if opened then
  answer.reason, answer.detail = opened.reason, opened.detail
  answer.paused_ms, answer.of_provider = opened.probe_at - at, p.open_at ~= nil
end
answer = cjson.encode(answer)
redis.call('HSET', mine, worker, calls, '=' .. worker, string.format('%d %s', report.number, answer))
local away_ms = report.away_ms or 0
local longest_ms = away_ms > 0 and away_ms + (report.call_ms or away_ms) or 0  -- until its last call ends
redis.call('ZADD', expiries, at + math.max(WORKER_MS, longest_ms), worker)
redis.call('PEXPIRE', mine, EXPIRES_MS)
redis.call('PEXPIRE', expiries, EXPIRES_MS)
return answer
