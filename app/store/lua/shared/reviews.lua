-- Reviews, and the pauses in which a refinement waits for them.

-- Returns the reviews that are open, in order, each with its data and its deadline. The first is in fields of its
-- own.
local function open_reviews(id)
  local asked, approvals, others, since = unpack(redis.call('HMGET', SUMMARY .. id,
    'review', 'approvals', 'also_asked', 'paused_at'))
  local open = { { asked = asked, approvals = approvals or '[]' } }
  for _, review in ipairs(cjson.decode(others or '[]')) do open[#open + 1] = review end
  for _, review in ipairs(open) do
    review.data = cjson.decode(review.asked)
    review.deadline = since + math.floor(review.data.timeout_s * 1000)
  end
  return open
end

-- Stores the reviews that are open, of which there is at least one.
local function keep_open(id, open)
  local key, others, soonest = SUMMARY .. id, {}, open[1].deadline
  for i, review in ipairs(open) do
    soonest = math.min(soonest, review.deadline)
    if i > 1 then others[i - 1] = { asked = review.asked, approvals = review.approvals } end
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
  for i, data in ipairs(asked) do
    local deadline = at + math.floor(cjson.decode(data).timeout_s * 1000)
    open[i] = { asked = data, approvals = '[]', deadline = deadline }
  end
  relist(id, tenant, from, 'paused')
  release(id)
  redis.call('HDEL', SUMMARY .. id, 'pause')
  keep_open(id, open)
  return 'status', 'paused', 'attempt', 0, 'paused_at', at
end

-- Journals the decision about the draft under review: the data of refinement.reviewed.
local function write_review(id, n, at, data)
  local said = cjson.decode(data)
  write(id, n, at, 'refinement.reviewed', data)
  if said.action == 'resume' then return end  -- nothing was decided
  redis.call('HINCRBY', SUMMARY .. id, 'steps', 1)
  redis.call('HSET', SUMMARY .. id, 'reviewed', cjson.encode({ key = said.key, action = said.action,
    by = said.by, reviewer = said.reviewer, approved_by = said.approved_by }))
end

-- Puts a paused refinement back into the queue; see `queued_again`.
local function resume_paused(id, tenant, n, at, lease_ms)
  local key = SUMMARY .. id
  local since, before = unpack(redis.call('HMGET', key, 'paused_at', 'paused_ms'))
  redis.call('HDEL', key, 'review', 'approvals', 'also_asked', 'paused_at', 'review_until')
  redis.call('HSET', key, 'paused_ms', (before or 0) + at - since)
  return queued_again(id, tenant, 'paused', n, at, lease_ms)
end

-- Makes a paused refinement end with its best draft once a worker has claimed it; without one, which only a
-- requested pause allows, as soon as a draft is judged.
local function finish_paused(id, tenant, n, at, lease_ms)
  if redis.call('HEXISTS', SUMMARY .. id, 'best') == 0 then
    redis.call('HSET', SUMMARY .. id, 'finish_requested', 1)
    return resume_paused(id, tenant, n - 1, at, lease_ms)
  end
  stop(id, n, at, 'finished_early')
  return resume_paused(id, tenant, n, at, lease_ms)
end

-- Journals a reviewer's decision, or one of several approvals that a review needs; `n` is the number of the entry.
-- Returns the number of the RQ job to enqueue, or 0 if the refinement stays paused.
local function decide(id, tenant, n, at, kind, about, data, lease_ms)
  local open, said = {}, cjson.decode(data)
  for _, review in ipairs(open_reviews(id)) do
    if review.data.key == about and kind == 'approved' then
      local given = cjson.decode(review.approvals)
      given[#given + 1] = { reviewer = said.reviewer, at = at, feedback = said.feedback, score = said.score }
      review.approvals = cjson.encode(given)
    end
    if review.data.key ~= about or kind == 'approved' then open[#open + 1] = review end
  end
  if kind == 'approved' then write(id, n, at, 'refinement.approval_given', data) else write_review(id, n, at, data) end
  if #open > 0 then return still_paused(id, n, open) end
  return resume_paused(id, tenant, n, at, lease_ms)
end
