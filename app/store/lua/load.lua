-- Loads a refinement for a worker: id. Returns false, PACKED (an API process of an earlier release has retried it), or the request, the models, the nonce of its
-- prompts, the version of the engine that it was made for, the
-- whole journal, the encrypted secrets of the request, and its origin.
local id = ARGV[1]
local request, models, prompt_nonce, secrets = unpack(
  redis.call('HMGET', REQUEST .. id, 'request', 'models', 'prompt_nonce', 'secrets'))
if not request then
  local status = redis.call('HGET', SUMMARY .. id, 'status')
  return status and not is_terminal(status) and 'PACKED'
end
local version, origin = unpack(redis.call('HMGET', SUMMARY .. id, 'engine_version', 'origin'))
return { request, models, prompt_nonce, version, redis.call('XRANGE', JOURNAL .. id, '-', '+'), secrets,
  origin or '' }
