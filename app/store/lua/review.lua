-- Takes a reviewer's decision: id, tenant, command id, key of the review that is meant or '', data of
-- refinement.reviewed without its key and names, names by which the reviewer is known (JSON) or '', lease in ms,
-- versions.
-- Returns the number of the RQ job to enqueue; or OK (a repeated command, or more words are needed), MISMATCH,
-- MISSING, DIFFERS, ENDED, UNASKED, REQUESTED, PLACELESS, UNJUDGED, UNREQUESTED, UNSUITED (to what is under review),
-- NAMELESS, STRANGER, ALONE, or OTHER or SEVERAL and the keys of the reviews that are open.
local id, owner, command, meant, decision, known_as, lease_ms, versions = unpack(ARGV)
local key = SUMMARY .. id
local tenant, status, last, jobs = unpack(redis.call('HMGET', key,
  'tenant', 'status', 'last_event', 'jobs'))
if tenant ~= owner then return 'MISSING' end
local digest, before = redis.sha1hex(meant .. decision .. known_as), given(id, 'review', command)
if before then
  if digest ~= before then return 'MISMATCH' end
  return status == 'queued' and tonumber(jobs) or 'OK'
end
if differs(versions, last) then return 'DIFFERS ' .. last end
if status == 'canceling' or is_terminal(status) then return 'ENDED' end
if status ~= 'paused' then return 'UNASKED' end
local open, known, place = open_reviews(id), {}, nil
for i, it in ipairs(open) do
  known[i] = it.data.key
  if meant == it.data.key or meant == '' and #open == 1 then place = i end
end
if not place then return (meant == '' and 'SEVERAL ' or 'OTHER ') .. table.concat(known, ', ') end
local pending, said = open[place].data, cjson.decode(decision)
local resumes, has_arguments = said.action == 'resume', type(said.arguments) == 'table'
if pending.when == 'requested' and not resumes then
  local is_about_text = said.action == 'revise' or said.action == 'replace'
  if not is_about_text or type(said.score) == 'number' then return 'REQUESTED' end
  if type(pending.place) ~= 'string' then return 'PLACELESS' end
  if said.action == 'revise' and type(pending.path) ~= 'string' then return 'UNJUDGED' end
end
if pending.when ~= 'requested' and resumes then return 'UNREQUESTED' end
if pending.when == 'before_call' then
  local is_answer = said.action == 'approve' or said.action == 'reject' or has_arguments
  if not is_answer or type(said.score) == 'number' then return 'UNSUITED call' end
elseif has_arguments then
  return 'UNSUITED draft'
end

local names, needed = pending.reviewers or {}, pending.approvals_needed or 1

-- Returns the name by which the reviewer counts: the one that is asked, else the oldest; nothing if others are
-- asked.
local function counted_as()
  local own = cjson.decode(known_as)
  if #names == 0 then return own[#own] end
  for _, name in ipairs(names) do
    for _, it in ipairs(own) do
      if it == name then return name end
    end
  end
end

local at, n, reviewer = clock(), last + 1, nil
if known_as ~= '' then
  reviewer = counted_as()
  if not reviewer then return 'STRANGER' end
elseif #names > 0 or needed > 1 then
  return 'NAMELESS'
end
if needed > 1 and (said.action == 'rate' or has_arguments) then return 'ALONE' end

-- Returns who has approved, and the mean of their scores or null.
local function sums_of(given)
  local by, sum, scored = {}, 0, 0
  for i, it in ipairs(given) do
    by[i] = it.reviewer
    if it.score ~= cjson.null then sum, scored = sum + it.score, scored + 1 end
  end
  return by, scored > 0 and sum / scored or cjson.null
end

if said.action == 'approve' and needed > 1 then
  local given = cjson.decode(open[place].approvals)
  for _, it in ipairs(given) do
    if it.reviewer == reviewer then return 'OK' end  -- a reviewer counts once
  end
  given[#given + 1] = { reviewer = reviewer, at = at, feedback = said.feedback, score = said.score }
  if #given < needed then
    write(id, n, at, 'refinement.approval_given', cjson.encode({ key = pending.key, reviewer = reviewer,
      feedback = said.feedback, score = said.score, given = #given, needed = needed }))
    open[place].approvals = cjson.encode(given)
    keep_open(id, open)
    redis.call('HSET', key, 'last_event', n)
    record(id, 'review', command, digest)
    publish(id)
    return 'OK'
  end
  local approved_by, score = sums_of(given)
  decision = cjson.encode({ action = 'approve', feedback = said.feedback, draft = cjson.null, score = score,
    by = said.by, approved_by = approved_by })
elseif said.action == 'approve' and reviewer then
  decision = '{"approved_by":' .. cjson.encode({ reviewer }) .. ',' .. string.sub(decision, 2)
end
if reviewer then decision = '{"reviewer":' .. cjson.encode(reviewer) .. ',' .. string.sub(decision, 2) end
reviewed(id, n, at, open[place].asked, decision)
record(id, 'review', command, digest)
table.remove(open, place)
if #open > 0 then
  keep_open(id, open)
  redis.call('HSET', key, 'last_event', n)
  publish(id)
  return 'OK'
end
return unpaused(id, tenant, n, at, lease_ms)
