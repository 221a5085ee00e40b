-- Loads a refinement for a worker: id. Returns false, or the request, the models, the version of the
-- engine that it was made for (version 1 did not write it), and the whole journal.
local id = ARGV[1]
local request, models = unpack(redis.call('HMGET', REQUEST .. id, 'request', 'models'))
if not request then return false end
local version = redis.call('HGET', SUMMARY .. id, 'engine_version') or '1'
return { request, models, version, redis.call('XRANGE', JOURNAL .. id, '-', '+') }
