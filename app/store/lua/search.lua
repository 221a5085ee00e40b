-- Finds refinements whose texts may have what is sought: those whose signature has all of it, or that have none: list, key
-- of the signatures, where to begin and to end, number of ids to look at, CRC-32 of every three characters.
-- Returns the last id looked at or '' if that is all, then the ids, newest first.
local list, signatures, top, bottom, count = unpack(ARGV, 1, 5)
local ids = redis.call('ZREVRANGEBYLEX', list, top, bottom, 'LIMIT', 0, count)
local found = { ids[tonumber(count)] or '' }
if #ids == 0 then return found end
local hashes = { unpack(ARGV, 6) }
local byte, band, rshift = string.byte, bit.band, bit.rshift
local function may_have(signature)
  local bits = #signature * 8
  for _, hash in ipairs(hashes) do
    local place = hash % bits
    if band(rshift(byte(signature, math.floor(place / 8) + 1), place % 8), 1) == 0 then return false end
  end
  return true
end
for i, signature in ipairs(redis.call('HMGET', signatures, unpack(ids))) do
  if not signature or may_have(signature) then found[#found + 1] = ids[i] end
end
return found
