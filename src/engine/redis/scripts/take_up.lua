-- take_up.lua: a holder's value with another one's record in it: the lease, its age and its token stay what they are; who has it
-- changes, and with it the client that is told what becomes of it. Included by those who need it.
local function taken_up(value, record)
        local uid, lease, grant = string.match(value, '^(%x+) %x+ (%d+ %d+ %a %d+ %S+ %d+) %S+ %S+ (.+)$')
        local client, owner = string.match(record, '^%x+ (%x+) %d+ %d+ %a %d+ %S+ %d+ (%S+ %S+)$')
        return uid .. ' ' .. client .. ' ' .. lease .. ' ' .. owner .. ' ' .. grant
end
