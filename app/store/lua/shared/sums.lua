-- Sums that outlive a refinement: what it consumed, what its drafts gained, what drawn models achieved, what is learnt.

-- The hashes of sums that this script has read: packed sums, or numbers that `write_sums` writes.
local known_sums = {}

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

-- Notes that a hash of sums was added to; the one in its list that was not for longest may go.
local function enlist(list, hash, at)
  if redis.call('ZADD', list, at, hash) == 1 then
    redis.call('ZREMRANGEBYSCORE', list, '-inf', at - KEPT_MS)
    if redis.call('ZCARD', list) > MOST_LISTED then redis.call('UNLINK', redis.call('ZPOPMIN', list)[1]) end
  end
  keep(list)
end

-- Adds numbers to sums of a tenant, which `write_sums` writes: `Addition` in state.py says what is added. `usage`,
-- `insights` and `models` stand for the sums of the day of `at`.
local function add(tenant, addition, at)
  local key, day = addition.key, math.floor(at / DAY_MS)
  local hash = string.find(key, ':', 1, true) and key or STATISTICS .. ':' .. key .. ':' .. tenant .. ':' .. day
  local known, version, decay = known_sums[hash], addition.version or 0, addition.decay or 1
  if not known then
    local stored = redis.call('HGETALL', hash)
    known = { sums = {}, size = #stored / 2, is_usage = key == 'usage' }
    for i = 1, #stored, 2 do known.sums[stored[i]] = stored[i + 1] end
    known_sums[hash] = known
    if known.is_usage then redis.call('ZADD', STATISTICS, day, tenant .. ':' .. day) end
  end
  local newer = version > 0 and version - (known.sums.version or 0) or 0
  if newer < 0 then return end
  if newer > 0 then
    redis.call('UNLINK', hash)
    redis.call('HSET', hash, 'version', version, 'about', addition.about)
    known.sums, known.size = { version = version }, 2
  end
  local list = addition.listed_in or ''
  if list ~= '' and list ~= known.list then enlist(list, hash, at); known.list = list end
  for name, numbers in pairs(addition.sums) do
    if not known.sums[name] then
      known.size = known.size + 1
      if known.size > MOST_SUMS then  -- what was consumed is counted all the same
        local ends_as, model = string.match(name, '^(%S+ %S+) %S+ (.*)$')
        name = known.is_usage and ends_as .. ' ' .. OTHER .. ' ' .. (model == '' and '' or OTHER)
      end
    end
    if name and #numbers > 0 then
      local sums = known.sums[name] or {}
      if type(sums) == 'string' then sums = numbers_of(sums) end
      for i, number in ipairs(numbers) do sums[i] = (sums[i] or 0) * decay + number end
      known.sums[name] = sums
    end
  end
end

-- Writes the sums that were added to. Recovery deletes usage; nothing else is kept for longer than KEPT_MS after it was
-- last added to.
local function write_sums()
  for hash, known in pairs(known_sums) do
    local words = {}
    for name, sums in pairs(known.sums) do
      if type(sums) == 'table' then
        words[#words + 1] = name
        words[#words + 1] = 'd' .. struct.pack('<' .. string.rep('d', #sums), unpack(sums))
      end
    end
    if #words > 0 then redis.call('HSET', hash, unpack(words)) end
    if not known.is_usage then keep(hash) end
  end
  known_sums = {}
end

-- Returns what the models that were drawn for a refinement have achieved. With -1 instead of 1 as `by` the addition takes
-- the earlier one back: a retry has another ending. `drawn` has their kind and the models by seat, `achieved` gain and
-- cost by seat; Achieved in app/contract/statistics.py names the numbers.
local function achieved_by(drawn, achieved, outcome, by)
  local draw, reached, sums = cjson.decode(drawn), cjson.decode(achieved or '{}'), {}
  for seat, model in pairs(draw.models) do
    if reached[seat] or not string.find(seat, '/') then  -- a stage that did not begin says nothing
      local gain, cost_usd = unpack(reached[seat] or { 0 })
      local is_priced = cost_usd and cost_usd ~= cjson.null
      sums[draw.kind .. ' ' .. seat .. ' ' .. model] = { by, outcome == 'passed' and by or 0, by * gain,
        by * gain * gain, is_priced and by or 0, is_priced and by * cost_usd or 0 }
    end
  end
  return { key = 'models', sums = sums }
end

-- Adds an ending to the sums of its tenant: the ending itself and the refinement's consumption by model since its
-- previous ending (ModelUse in app/contract/statistics.py names the numbers in `used` and `counted`), what drawn models
-- achieved, and what its worker has given. A refinement that is erased before it has ended ends at `erased_at`.
local function add_ending(id, erased_at)
  local tenant, outcome, at, strategy, api_key, used, counted, drawn, achieved, added = unpack(redis.call('HMGET',
    SUMMARY .. id, 'tenant', 'outcome', 'ended_at', 'strategy', 'api_key', 'used', 'counted', 'drawn', 'achieved', 'added'))
  if not tenant then return end
  at, outcome = erased_at or at, erased_at and 'erased' or outcome
  local name = outcome .. ' ' .. strategy .. ' ' .. (api_key or '-') .. ' '
  local sums, before = { [name] = { 1, 0, 0, 0, 0, 0, 0 } }, cjson.decode(counted or '{}')
  for model, numbers in pairs(cjson.decode(used or '{}')) do
    local since, is_new = { 1 }, false
    for i, sum in ipairs(numbers) do
      since[i + 1] = sum - ((before[model] or {})[i] or 0)
      is_new = is_new or since[i + 1] > 0
    end
    if is_new then sums[name .. model] = since end
  end
  add(tenant, { key = 'usage', sums = sums }, at)
  if drawn and outcome ~= 'canceled' and outcome ~= 'erased' then
    add(tenant, achieved_by(drawn, achieved, outcome, 1), at)
  end
  if added then
    for _, addition in ipairs(cjson.decode(added)) do add(tenant, addition, at) end
    redis.call('HSET', SUMMARY .. id, 'added', '[]')  -- a retry adds no more: its drafts would count twice
  end
end

-- Counts the endings that stand in TO_COUNT and are among these: each once, and all of them or none.
local function count_endings(ids)
  for _, id in ipairs(ids) do
    if redis.call('ZREM', TO_COUNT, id) == 1 then add_ending(id) end
  end
  write_sums()
end

-- Takes back what the ending of a failed refinement has added and the next one adds anew, unless the sums are gone.
local function take_back(id, tenant)
  count_endings({ id })
  local ended_at, drawn, achieved = unpack(redis.call('HMGET', SUMMARY .. id, 'ended_at', 'drawn', 'achieved'))
  local hash = STATISTICS .. ':models:' .. tenant .. ':' .. math.floor(ended_at / DAY_MS)
  if drawn and redis.call('EXISTS', hash) == 1 then
    add(tenant, achieved_by(drawn, achieved, 'failed', -1), ended_at)
    write_sums()
  end
end
