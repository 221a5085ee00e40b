-- Sums that outlive a refinement: what it consumed, what its drafts gained, what drawn models achieved, what is learnt.

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

-- Returns an addition to the sums of a day as `encode_addition` in codec.py writes one; `sums` has numbers by name.
local function addition_of(sums)
  local words, count = {}, 0
  for name, numbers in pairs(sums) do
    local packed = 'd' .. struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
    words[#words + 1] = struct.pack('<I4c0I4c0', #name, name, #packed, packed)
    count = count + 1
  end
  return '1 - ' .. count .. ' \n' .. table.concat(words)
end

-- Adds numbers to sums of a tenant: `Addition` in state.py says what is added, and `encode_addition` in codec.py in
-- which form. `usage`, `insights` and `models` stand for the sums of the day of `at`. Recovery deletes usage; nothing
-- else is kept for longer than KEPT_MS after it was last added to.
local function add(tenant, key, addition, at)
  local day = tenant .. ':' .. math.floor(at / DAY_MS)
  local hash = string.find(key, ':', 1, true) and key or STATISTICS .. ':' .. key .. ':' .. day
  local decay, version, count, list, place = string.match(addition, '^(%S+) (%S+) (%d+) (%S*)\n()')
  decay, count = tonumber(decay), tonumber(count)
  local names, added = {}, {}
  for i = 1, count do
    names[i], added[i], place = struct.unpack('<I4c0I4c0', addition, place)
  end
  names[count + 1] = 'version'
  local found, size = redis.call('HMGET', hash, unpack(names)), nil
  local newer = version ~= '-' and version - (found[#names] or 0)
  if newer and newer < 0 then return end
  if newer and newer > 0 then
    redis.call('UNLINK', hash)
    redis.call('HSET', hash, 'version', version, 'about', string.sub(addition, place))
    found = {}
  end
  local set = {}
  for i = 1, count do
    local name, before = names[i], found[i]
    if not before then
      size = (size or redis.call('HLEN', hash)) + 1
      if size > MOST_SUMS then  -- what was consumed is counted all the same
        local ends_as, model = string.match(name, '^(%S+ %S+) %S+ (.*)$')
        name = key == 'usage' and ends_as .. ' ' .. OTHER .. ' ' .. (model == '' and '' or OTHER)
        before = name and (set[name] or redis.call('HGET', hash, name))
      end
    end
    if name then
      local sums, new = before and numbers_of(before) or {}, numbers_of(added[i])
      for j = 1, #new do sums[j] = (sums[j] or 0) * decay + new[j] end
      set[name] = 'd' .. struct.pack('<' .. string.rep('d', #sums), unpack(sums))
    end
  end
  local words = {}
  for name, sums in pairs(set) do words[#words + 1] = name; words[#words + 1] = sums end
  if #words > 0 then redis.call('HSET', hash, unpack(words)) end
  if key == 'usage' then
    redis.call('ZADD', STATISTICS, math.floor(at / DAY_MS), day)
    return
  end
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

-- Returns the addition of every ending to the sums of its day: the ending itself, and the refinement's consumption by
-- model since its previous ending. ModelUse in app/contract/statistics.py names the numbers in `used` and `counted`.
local function usage_of(id, outcome)
  local strategy, api_key, used, counted = unpack(redis.call('HMGET', SUMMARY .. id,
    'strategy', 'api_key', 'used', 'counted'))
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
  return addition_of(sums)
end

-- Returns the addition of an ending about the models that were drawn for the refinement; nothing if none were drawn.
-- With -1 instead of 1 as `by` the addition takes the earlier one back: a retry has another ending. `drawn` has their
-- kind and the models by seat, `achieved` gain and cost by seat; Achieved in app/contract/statistics.py names the numbers.
local function achieved_by(id, outcome, by)
  local drawn, achieved = unpack(redis.call('HMGET', SUMMARY .. id, 'drawn', 'achieved'))
  if not drawn then return end
  local draw, reached, sums = cjson.decode(drawn), cjson.decode(achieved or '{}'), {}
  for seat, model in pairs(draw.models) do
    if reached[seat] or not string.find(seat, '/') then  -- a stage that did not begin says nothing
      local gain, cost_usd = unpack(reached[seat] or { 0 })
      local is_priced = cost_usd and cost_usd ~= cjson.null
      sums[draw.kind .. ' ' .. seat .. ' ' .. model] = { by, outcome == 'passed' and by or 0, by * gain,
        by * gain * gain, is_priced and by or 0, is_priced and by * cost_usd or 0 }
    end
  end
  return addition_of(sums)
end

-- Counts an ending in the sums of its tenant by one list: key, addition and so on. The additions that the worker has
-- `given` count at the first ending alone: after a retry its drafts would count twice. They contain names of criteria,
-- so they are skipped for refinements with `store: false`.
local function count_ending(id, tenant, outcome, given, at)
  local list = { 'usage', usage_of(id, outcome) }
  if outcome ~= 'canceled' and outcome ~= 'erased' then
    local achieved = achieved_by(id, outcome, 1)
    if achieved then list = { 'usage', list[2], 'models', achieved } end
    local is_stored = redis.call('HGET', SUMMARY .. id, 'store') ~= '0'
    if given[1] and is_stored and redis.call('HSETNX', SUMMARY .. id, 'added', '1') == 1 then
      for _, word in ipairs(given) do list[#list + 1] = word end
    end
  end
  for i = 1, #list, 2 do add(tenant, list[i], list[i + 1], at) end
end

-- Takes back what the ending of a failed refinement has added and the next one adds anew, unless the sums are gone.
local function take_back(id, tenant)
  local ended_at, addition = redis.call('HGET', SUMMARY .. id, 'ended_at'), achieved_by(id, 'failed', -1)
  local hash = STATISTICS .. ':models:' .. tenant .. ':' .. math.floor(ended_at / DAY_MS)
  if addition and redis.call('EXISTS', hash) == 1 then add(tenant, 'models', addition, ended_at) end
end
