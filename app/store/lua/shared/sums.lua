-- Sums that outlive a refinement: usage of days, achievements of models, and what is learnt.

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
