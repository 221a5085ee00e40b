-- Erases the text of a refinement that was delivered, if it is not to be stored: id, tenant. It stays while a webhook is
-- still to be sent. Returns OK.
local id, owner = unpack(ARGV)
local is_owned = redis.call('HGET', SUMMARY .. id, 'tenant') == owner
if is_owned and is_to_be_erased(id) and #outbox_of(id) == 0 then erase_text(id) end
return 'OK'
