-- Sums that outlive a refinement: what it consumed, what its drafts gained, what drawn models achieved, what is learnt.

-- The sums that this script has read, by hash and name, until `write_sums` writes those that have changed.
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

-- Returns the numbers under a name in a hash of sums; nothing if there are none.
local function numbers_in(hash, name)
  local known = known_sums[hash]
  if known.sums[name] == nil then
    local stored = not known.about and redis.call('HGET', hash, name)
    known.sums[name] = stored and numbers_of(stored)
  end
  return known.sums[name]
end

-- Adds numbers to sums of a tenant: `Addition` in state.py says what is added. `usage`, `insights` and `models` stand for
-- the sums of the day of `at`.
local function add(tenant, addition, at)
  local key, day = addition.key, tenant .. ':' .. math.floor(at / DAY_MS)
  local hash = string.find(key, ':', 1, true) and key or STATISTICS .. ':' .. key .. ':' .. day
  local known, version = known_sums[hash], addition.version or 0
  if not known then
    known = { sums = {}, changed = {}, version = tonumber(redis.call('HGET', hash, 'version') or 0) }
    known_sums[hash] = known
  end
  if version > 0 and version < known.version then return end
  if version > known.version then
    known.version, known.about, known.sums, known.changed, known.size = version, addition.about, {}, {}, 2
  end
  known.at, known.day = at, key == 'usage' and day
  if (addition.listed_in or '') ~= '' then known.list = addition.listed_in end
  local decay = addition.decay or 1
  for name, numbers in pairs(addition.sums) do
    local sums = numbers_in(hash, name)
    if not sums then
      known.size = (known.size or redis.call('HLEN', hash)) + 1
      if known.size > MOST_SUMS then  -- what was consumed is counted all the same
        local ends_as, model = string.match(name, '^(%S+ %S+) %S+ (.*)$')
        name = key == 'usage' and ends_as .. ' ' .. OTHER .. ' ' .. (model == '' and '' or OTHER)
        sums = name and numbers_in(hash, name)
      end
    end
    if name and #numbers > 0 then
      sums = sums or {}
      for i, number in ipairs(numbers) do sums[i] = (sums[i] or 0) * decay + number end
      known.sums[name], known.changed[name] = sums, sums
    end
  end
end

-- Lets a key expire KEPT_MS after now, or up to a day earlier: that need not be written every time.
local function keep(key)
  if redis.call('PTTL', key) < KEPT_MS - DAY_MS then redis.call('PEXPIRE', key, KEPT_MS) end
end

-- Writes the sums that were added to. Recovery deletes usage; nothing else is kept for longer than KEPT_MS after it was
-- last added to.
local function write_sums()
  local lists = {}
  for hash, known in pairs(known_sums) do
    local words = {}
    if known.about then
      redis.call('UNLINK', hash)
      words = { 'version', known.version, 'about', known.about }
    end
    for name, sums in pairs(known.changed) do
      words[#words + 1] = name
      words[#words + 1] = 'd' .. struct.pack('<' .. string.rep('d', #sums), unpack(sums))
    end
    if #words > 0 then redis.call('HSET', hash, unpack(words)) end
    if known.day then
      redis.call('ZADD', STATISTICS, math.floor(known.at / DAY_MS), known.day)
    elseif known.at then
      keep(hash)
    end
    if known.list then
      redis.call('ZADD', known.list, known.at, hash)
      lists[known.list] = known.at
    end
  end
  for list, at in pairs(lists) do
    redis.call('ZREMRANGEBYSCORE', list, '-inf', at - KEPT_MS)
    local gone = redis.call('ZRANGE', list, 0, -1 - MOST_LISTED)
    if #gone > 0 then
      redis.call('UNLINK', unpack(gone))
      redis.call('ZREM', list, unpack(gone))
    end
    keep(list)
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
