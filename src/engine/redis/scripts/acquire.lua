-- acquire.lua: takes the lock, or stands in line for it.
-- KEYS: the lock, the namespace's counter. ARGV: the record, ending in a blank; ttl + delay in ms; and in one word: the mode, x
-- or s; what to do if it is not free: 0 nothing, 1 stand in line, 2 take a ticket, to stand in line with it later; h if past
-- owners are remembered, else -; the ticket it had before, if any.
-- Returns the token as text; or 0: not free; or the ticket as a negative number; or, if it stands in line, { ticket, ms until to
-- look again, 1 if the holder is not one of us, the holder's value }. May be sent again: a holder gets its token once more and
-- its lease begins again.

-- The short way: free, and nobody waits. Every word and every call counts here: see NOTES.md.
local call = redis.call
if string.byte(ARGV[3]) == 120 and call('EXISTS', KEYS[1], 'pawl:queue:' .. KEYS[1]) == 0 then
        local time = call('TIME')
        local token = time[1] .. time[2]
        if #token ~= 16 then
                token = time[1] .. string.format('%06d', time[2])
        end
        local last = call('GETSET', KEYS[2], token)
        if last and (#last ~= 16 or last >= token) and tonumber(last) >= tonumber(token) then
                token = string.format('%.0f', last + 1)
                call('SET', KEYS[2], token)
        end
        call('SET', KEYS[1], ARGV[1] .. token, 'PX', ARGV[2])
        return token
end

local lock, fence = KEYS[1], KEYS[2]
local how, history = string.sub(ARGV[3], 2, 2), string.sub(ARGV[3], 3, 3) == 'h'
--include common.lua

local record, uid = string.sub(ARGV[1], 1, -2), string.sub(ARGV[1], 1, 32)
local client, ttl, delay, mode, limit = string.match(record, '^%x+ (%x+) (%d+) (%d+) (%a) (%d+) ')
ttl = tonumber(ttl)

look()
local held = held_by(uid)
if held then
        restart(uid, ttl, delay)
        return token_of(held)
end
if redis.call('ZCARD', queue) == 0 and admits(mode, tonumber(limit)) then
        local token = next_token()
        give(record, ttl, token)
        return token
end
if how == '0' then
        serve()
        return 0
end

local ticket = string.sub(ARGV[3], 4)
ticket = redis.call('ZSCORE', queue, record) or (ticket ~= '' and ticket)
if not ticket then
        ticket = time[1] * 1000000 + time[2]
        local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
        if last[2] and tonumber(last[2]) >= ticket then
                ticket = last[2] + 1
        end
        ticket = number(ticket)
end
if how == '2' then
        serve()
        return -tonumber(ticket)
end
redis.call('ZADD', queue, ticket, record)
redis.call('PEXPIRE', queue, QUEUE_LEASE)
redis.call('SET', 'pawl:alive:' .. space .. client, '', 'PX', QUEUE_LEASE)
serve()
held = held_by(uid)
if held then
        return token_of(held)
end
local ms, foreign = due(record)
return { tonumber(ticket), ms, foreign, holder.value or '' }
