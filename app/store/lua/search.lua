-- Finds refinements whose texts may have what is sought: those whose signature has all of it, or that have none: list, key
-- of the signatures, where to begin and to end, number of ids to look at, CRC-32 of every three characters.
-- Returns the last id looked at or '' if that is all, then the ids, newest first.
local list, signatures, top, bottom, count = unpack(ARGV, 1, 5)
local ids = redis.call('ZREVRANGEBYLEX', list, top, bottom, 'LIMIT', 0, count)
local found = { ids[tonumber(count)] or '' }
if #ids == 0 then return found end
local hashes = {}
for i = 6, #ARGV do hashes[i - 5] = tonumber(ARGV[i]) end
local byte, band, mask = string.byte, bit.band, { [0] = 1, 2, 4, 8, 16, 32, 64, 128 }
local function may_have(signature)
  local bits = #signature * 8
  for i = 1, #hashes do
    local place = hashes[i] % bits
    local low = place % 8
    if band(byte(signature, (place - low) / 8 + 1), mask[low]) == 0 then return false end
  end
  return true
end
for i, signature in ipairs(redis.call('HMGET', signatures, unpack(ids))) do
  if not signature or may_have(signature) then found[#found + 1] = ids[i] end
end
return found
