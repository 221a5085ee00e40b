-- Loads a refinement for a worker: id. Returns false, or the request, the models, the nonce of its
-- prompts (release 0.1.0 wrote none), the version of the engine that it was made for (version 1 did not write it), the
-- whole journal, and the encrypted secrets of the request.
local id = ARGV[1]
local request, models, prompt_nonce, secrets = unpack(
  redis.call('HMGET', REQUEST .. id, 'request', 'models', 'prompt_nonce', 'secrets'))
if not request then return false end
local version = redis.call('HGET', SUMMARY .. id, 'engine_version') or '1'
return { request, models, prompt_nonce, version, redis.call('XRANGE', JOURNAL .. id, '-', '+'), secrets }
