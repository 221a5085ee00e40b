-- Takes a reviewer's decision: id, tenant, command id, key of the review that is meant or '', data of
-- refinement.reviewed without its key, lease in ms, versions.
-- Returns the number of the RQ job to enqueue; or OK (a repeated command), MISMATCH, MISSING, DIFFERS,
-- ENDED, UNASKED, REQUESTED, UNREQUESTED, or OTHER and the key of the pending review.
local id, owner, command, meant, decision, lease_ms, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, asked, jobs = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'review', 'jobs'))
if tenant ~= owner then return 'MISSING' end
local digest, before = redis.sha1hex(meant .. decision), given(id, 'review', command)
if before then
  if digest ~= before then return 'MISMATCH' end
  return status == 'queued' and tonumber(jobs) or 'OK'
end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or TERMINAL[status] then return 'ENDED' end
if status ~= 'paused' then return 'UNASKED' end
local pending = cjson.decode(asked)
if meant ~= '' and meant ~= pending.key then return 'OTHER ' .. pending.key end
local resumes = cjson.decode(decision).action == 'resume'
if pending.when == 'requested' and not resumes then return 'REQUESTED' end
if pending.when ~= 'requested' and resumes then return 'UNREQUESTED' end

local at = clock()
reviewed(id, last + 1, at, asked, decision)
record(id, 'review', command, digest)
return unpaused(id, tenant, last + 1, at, lease_ms)
