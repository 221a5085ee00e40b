-- Erases a refinement in any status: id, tenant, `all` or `text`. `text` erases only the text of an ended one that is not to be
-- stored, and only once no webhook about it is to be sent. Returns OK, MISSING, or OBJECTS if there may be objects of it in
-- the archive.
local id, owner, what = unpack(ARGV)
local tenant, archived = unpack(redis.call('HMGET', SUMMARY .. id, 'tenant', 'archived'))
if tenant ~= owner then return 'MISSING' end
if what == 'all' then erase(id) else erase_delivered(id) end
return archived and 'OBJECTS' or 'OK'
