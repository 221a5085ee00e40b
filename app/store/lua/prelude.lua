-- What every script shares. The names of keys, MOVES and END stand above it, written by scripts.py.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function write(id, n, at, kind, data)
  if data and data ~= '' then
    redis.call('XADD', JOURNAL .. id, n .. '-0', 'type', kind, 'at', at, 'data', data)
  else
    redis.call('XADD', JOURNAL .. id, n .. '-0', 'type', kind, 'at', at)
  end
end

local function relist(id, tenant, from, to)
  redis.call('ZREM', LIST .. tenant .. BY_STATUS .. from, id)
  redis.call('ZADD', LIST .. tenant .. BY_STATUS .. to, 0, id)
end

-- The summary fields of an ended refinement, and everything outside the summary that goes with them.
local function ended(id, tenant, from, to, at, retention_ms)
  local expires = at + retention_ms
  relist(id, tenant, from, to)
  redis.call('HDEL', SUMMARY .. id, 'lease', 'claimant')
  redis.call('ZREM', WAITING, id)
  redis.call('ZADD', DUE, expires, id)
  return 'status', to, 'phase', '[]', 'ended_at', at, 'expires_at', expires
end

-- Cancels what nobody works on; `n` is the number of the entry.
local function cancel_now(id, tenant, from, at, n, retention_ms)
  write(id, n, at, END['canceled'])
  redis.call('HSET', SUMMARY .. id, 'last_event', n, 'stop_reason', 'canceled',
    ended(id, tenant, from, 'canceled', at, retention_ms))
end

-- Tells a worker how it stands; the limits only when it does not know them yet.
local function state(code, status, n, stopping, finish_requested, seq, limits)
  return code .. ' ' .. status .. ' ' .. n .. ' ' .. (stopping or '-') .. ' '
    .. (finish_requested or '0') .. ' ' .. seq .. ' ' .. (limits or '')
end

-- Deletes a refinement and everything derived from it.
local function forget(id)
  local tenant, status, metadata, idempotency = unpack(
    redis.call('HMGET', SUMMARY .. id, 'tenant', 'status', 'metadata', 'idempotency'))
  if tenant then
    redis.call('ZREM', LIST .. tenant, id)
    redis.call('ZREM', LIST .. tenant .. BY_STATUS .. status, id)
    for key, value in pairs(cjson.decode(metadata)) do
      redis.call('ZREM', LIST .. tenant .. BY_METADATA .. key .. '=' .. value, id)
    end
  end
  if idempotency then
    local record = redis.call('GET', idempotency)
    if record and string.sub(record, -#id) == id then redis.call('DEL', idempotency) end
  end
  redis.call('ZREM', DUE, id)
  redis.call('ZREM', WAITING, id)
  redis.call('UNLINK', SUMMARY .. id, JOURNAL .. id, REQUEST .. id)
end
