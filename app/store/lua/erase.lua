-- Erases a refinement in any status: id, tenant, `all` or `text`. `text` erases only the text of an ended one that is not to be
-- stored, and only once no webhook about it is to be sent. Returns OK, or MISSING.
local id, owner, what = unpack(ARGV)
if redis.call('HGET', SUMMARY .. id, 'tenant') ~= owner then return 'MISSING' end
if what == 'all' then erase(id) else erase_delivered(id) end
return 'OK'
