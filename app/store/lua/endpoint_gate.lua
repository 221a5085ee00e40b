-- Asks whether a webhook may be sent to an endpoint: its key, ms between two attempts while it is paused.
-- Returns the ms to wait; 0: send it.
local endpoint, probe_ms = unpack(ARGV)
local at = clock()
local paused, probe = unpack(redis.call('HMGET', endpoint, 'paused_at', 'probe_at'))
if not paused then return 0 end
local wait = math.max(0, tonumber(probe or 0) - at)
if wait == 0 then redis.call('HSET', endpoint, 'probe_at', string.format('%d', at + probe_ms)) end
return wait
