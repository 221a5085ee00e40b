-- Reviews, and the pauses in which a refinement waits for them.

-- Returns the reviews that are open, in order, each with its data and its deadline. The first is in fields of its
-- own.
local function open_reviews(id)
  local asked, approvals, others, since = unpack(redis.call('HMGET', SUMMARY .. id,
    'review', 'approvals', 'also_asked', 'paused_at'))
  local open = { { asked = asked, approvals = approvals or '[]' } }
  for _, it in ipairs(cjson.decode(others or '[]')) do open[#open + 1] = it end
  for _, it in ipairs(open) do
    it.data = cjson.decode(it.asked)
    it.deadline = since + math.floor(it.data.timeout_s * 1000)
  end
  return open
end

-- Stores the reviews that are open, of which there is at least one.
local function keep_open(id, open)
  local key, others, soonest = SUMMARY .. id, {}, open[1].deadline
  for i, it in ipairs(open) do
    soonest = math.min(soonest, it.deadline)
    if i > 1 then others[i - 1] = { asked = it.asked, approvals = it.approvals } end
  end
  redis.call('HSET', key, 'review', open[1].asked, 'approvals', open[1].approvals,
    'review_until', open[1].deadline)
  redis.call('HDEL', key, 'also_asked')
  if #others > 0 then redis.call('HSET', key, 'also_asked', cjson.encode(others)) end
  redis.call('ZADD', DUE, soonest, id)
end

-- Stores the reviews of a refinement that stays paused; `n` is the number of its last entry. Returns that no RQ job is needed.
local function still_paused(id, n, open)
  keep_open(id, open)
  redis.call('HSET', SUMMARY .. id, 'last_event', n)
  publish(id)
  return 0
end

-- Returns the summary fields of a refinement that waits for reviews, and updates everything else: no worker
-- holds it. `asked` has the data of each refinement.paused.
local function begin_pause(id, tenant, from, at, asked)
  local open = {}
  for i, it in ipairs(asked) do
    local deadline = at + math.floor(cjson.decode(it).timeout_s * 1000)
    open[i] = { asked = it, approvals = '[]', deadline = deadline }
  end
  relist(id, tenant, from, 'paused')
  release(id)
  redis.call('HDEL', SUMMARY .. id, 'pause')
  keep_open(id, open)
  return 'status', 'paused', 'attempt', 0, 'paused_at', at
end

-- Journals the decision about the draft under review: `decision` is the data without its key.
local function reviewed(id, n, at, asked, decision)
  local it, said = cjson.decode(asked), cjson.decode(decision)
  write(id, n, at, 'refinement.reviewed',
    '{"key":"' .. it.key .. '",' .. string.sub(decision, 2))
  if said.action == 'resume' then return end  -- nothing was decided
  redis.call('HINCRBY', SUMMARY .. id, 'steps', 1)
  redis.call('HSET', SUMMARY .. id, 'reviewed', cjson.encode({ key = it.key, action = said.action,
    by = said.by, reviewer = said.reviewer, approved_by = said.approved_by }))
end

-- The same for a paused one.
local function unpaused(id, tenant, n, at, lease_ms)
  local key = SUMMARY .. id
  local since, before = unpack(redis.call('HMGET', key, 'paused_at', 'paused_ms'))
  redis.call('HDEL', key, 'review', 'approvals', 'also_asked', 'paused_at', 'review_until')
  redis.call('HSET', key, 'paused_ms', (before or 0) + at - since)
  return queued_again(id, tenant, 'paused', n, at, lease_ms)
end

-- Makes a paused refinement end with its best draft once a worker has claimed it; without one, which only a
-- requested pause allows, as soon as a draft is judged.
local function finished_early(id, tenant, n, at, lease_ms)
  if redis.call('HEXISTS', SUMMARY .. id, 'best') == 0 then
    redis.call('HSET', SUMMARY .. id, 'finish_requested', 1)
    return unpaused(id, tenant, n - 1, at, lease_ms)
  end
  stop(id, n, at, 'finished_early')
  return unpaused(id, tenant, n, at, lease_ms)
end

-- Returns why a decision is none about what a review asks, if so, and whether that is a call or a draft.
local function unsuited(asked, said)
  local resumes, has_arguments = said.action == 'resume', type(said.arguments) == 'table'
  if asked.when == 'requested' and not resumes then
    local is_about_text = said.action == 'revise' or said.action == 'replace'
    if not is_about_text or type(said.score) == 'number' then return 'REQUESTED' end
    if type(asked.place) ~= 'string' then return 'PLACELESS' end
    if said.action == 'revise' and type(asked.path) ~= 'string' then return 'UNJUDGED' end
  end
  if asked.when ~= 'requested' and resumes then return 'UNREQUESTED' end
  if asked.when == 'before_call' then
    local is_answer = said.action == 'approve' or said.action == 'reject' or has_arguments
    if not is_answer or type(said.score) == 'number' then return 'UNSUITED_CALL' end
  elseif has_arguments then
    return 'UNSUITED_DRAFT'
  end
end

-- Returns the name by which a reviewer counts: the one that is asked, else the oldest; nothing if others are asked.
local function counted_as(names, known_as)
  if #names == 0 then return known_as[#known_as] end
  for _, name in ipairs(names) do
    for _, it in ipairs(known_as) do
      if it == name then return name end
    end
  end
end

-- Returns who has approved, and the mean of their scores or null.
local function sums_of(approvals)
  local by, sum, scored = {}, 0, 0
  for i, it in ipairs(approvals) do
    by[i] = it.reviewer
    if it.score ~= cjson.null then sum, scored = sum + it.score, scored + 1 end
  end
  return by, scored > 0 and sum / scored or cjson.null
end

-- Takes a reviewer's decision about the review with the key `meant`, or about the only one; `n` is the number of the entry.
-- Returns the number of the RQ job to enqueue, or 0 if the refinement stays paused; or nil, a refusal and its detail.
local function decide(id, tenant, n, at, meant, decision, known_as, lease_ms)
  local open, keys, place = open_reviews(id), {}, nil
  for i, it in ipairs(open) do
    keys[i] = it.data.key
    if meant == it.data.key or meant == '' and #open == 1 then place = i end
  end
  if not place then return nil, meant == '' and 'SEVERAL' or 'OTHER', table.concat(keys, ', ') end
  local asked, said, reviewer = open[place].data, cjson.decode(decision), nil
  local names, needed = asked.reviewers or {}, asked.approvals_needed or 1
  local refusal = unsuited(asked, said)
  if refusal then return nil, refusal end
  if known_as ~= '' then
    reviewer = counted_as(names, cjson.decode(known_as))
    if not reviewer then return nil, 'STRANGER' end
  elseif #names > 0 or needed > 1 then
    return nil, 'NAMELESS'
  end
  if needed > 1 and (said.action == 'rate' or type(said.arguments) == 'table') then return nil, 'ALONE' end

  if said.action == 'approve' and needed > 1 then
    local approvals = cjson.decode(open[place].approvals)
    for _, it in ipairs(approvals) do
      if it.reviewer == reviewer then return 0 end  -- a reviewer counts once
    end
    approvals[#approvals + 1] = { reviewer = reviewer, at = at, feedback = said.feedback, score = said.score }
    if #approvals < needed then
      write(id, n, at, 'refinement.approval_given', cjson.encode({ key = asked.key, reviewer = reviewer,
        feedback = said.feedback, score = said.score, given = #approvals, needed = needed }))
      open[place].approvals = cjson.encode(approvals)
      return still_paused(id, n, open)
    end
    local approved_by, score = sums_of(approvals)
    decision = cjson.encode({ action = 'approve', feedback = said.feedback, draft = cjson.null, score = score,
      by = said.by, approved_by = approved_by })
  elseif said.action == 'approve' and reviewer then
    decision = '{"approved_by":' .. cjson.encode({ reviewer }) .. ',' .. string.sub(decision, 2)
  end
  if reviewer then decision = '{"reviewer":' .. cjson.encode(reviewer) .. ',' .. string.sub(decision, 2) end
  reviewed(id, n, at, open[place].asked, decision)
  table.remove(open, place)
  if #open > 0 then return still_paused(id, n, open) end
  return unpaused(id, tenant, n, at, lease_ms)
end
