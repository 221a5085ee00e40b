-- Takes a reviewer's decision: id, tenant, command id, key of the review that is meant or '', data of
-- refinement.reviewed without its key, lease in ms, versions.
-- Returns the number of the RQ job to enqueue; or OK (a repeated command), MISMATCH, MISSING, DIFFERS,
-- ENDED, UNASKED, REQUESTED, UNREQUESTED, UNSUITED (to what is under review), or OTHER and the key of the pending
-- review.
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
local pending, said = cjson.decode(asked), cjson.decode(decision)
if meant ~= '' and meant ~= pending.key then return 'OTHER ' .. pending.key end
local resumes, has_arguments = said.action == 'resume', type(said.arguments) == 'table'
if pending.when == 'requested' and not resumes then return 'REQUESTED' end
if pending.when ~= 'requested' and resumes then return 'UNREQUESTED' end
if pending.when == 'before_call' then
  local is_answer = said.action == 'approve' or said.action == 'reject' or has_arguments
  if not is_answer or type(said.score) == 'number' then return 'UNSUITED call' end
elseif has_arguments then
  return 'UNSUITED draft'
end

local at = clock()
reviewed(id, last + 1, at, asked, decision)
record(id, 'review', command, digest)
return unpaused(id, tenant, last + 1, at, lease_ms)
