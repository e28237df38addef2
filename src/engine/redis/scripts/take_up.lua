-- take_up.lua: a holder's value with another one's record in it: the lease, its age and its token stay what they are; who has it
-- changes, and with it the client that is told what becomes of it. The owner is then TAKER<MAKER, for the history has who took
-- the lock; a note stays if there is no new one. Included by those who need it.
local function taken_up(value, record)
        local uid, lease, maker, note, grant = string.match(value, '^(%x+) %x+ (%d+ %d+ %a %d+ %S+ %d+) (%S+) (%S+) (.+)$')
        local client, taker, new = string.match(record, '^%x+ (%x+) %d+ %d+ %a %d+ %S+ %d+ (%S+) (%S+)$')
        maker = string.match(maker, '<(.+)') or maker
        local owner = taker == maker and taker or taker .. '<' .. maker
        return table.concat({ uid, client, lease, owner, new == '-' and note or new, grant }, ' ')
end
