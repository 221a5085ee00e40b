-- Loads a claimed refinement: id. Returns false, or the request, the models and the whole journal.
local id = ARGV[1]
local request, models = unpack(redis.call('HMGET', REQUEST .. id, 'request', 'models'))
if not request then return false end
return { request, models, redis.call('XRANGE', JOURNAL .. id, '-', '+') }
