-- Loads a refinement for a worker: id. Returns false, or the request, the models, the nonce of its prompts, the
-- version of the engine that it was made for, the whole journal, the encrypted secrets of the request, and its origin.
local id = ARGV[1]
local request, models, prompt_nonce, secrets = unpack(
  redis.call('HMGET', REQUEST .. id, 'request', 'models', 'prompt_nonce', 'secrets'))
if not request then return false end
local version, origin = unpack(redis.call('HMGET', SUMMARY .. id, 'engine_version', 'origin'))
return { request, models, prompt_nonce, version, redis.call('XRANGE', JOURNAL .. id, '-', '+'), secrets,
  origin or '' }
