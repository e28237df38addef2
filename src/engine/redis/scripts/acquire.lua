-- acquire.lua: takes the lock, or stands in line for it.
-- KEYS: the lock, the namespace's counter. ARGV: the record, ending in a blank; ttl + delay in ms; and in one word: the mode, x
-- or s; what to do if it is not free: 0 nothing, 1 stand in line, 2 take a ticket, to stand in line with it later; h if past
-- owners are remembered, else -; a if the client's lease as a waiter is to be renewed, else -; the ticket it had before, if any.
-- Returns the token as text; or 0: not free; or the ticket as a negative number; or, if it stands in line, { ticket, ms until to
-- look again, 0 or its place in line if the holder is not one of us, the holder's value, the counter: a grant that is told later
-- has a greater token }.
-- May be sent again: a holder gets its token once more and its lease begins again.

-- The short ways: every word and every call counts here, see NOTES.md.
local call = redis.call
if string.byte(ARGV[3]) == 120 then
        local queue = 'pawl:queue:' .. KEYS[1]
        local there = call('EXISTS', KEYS[1], queue)
        local free = there == 0
        local value, delay
        if not free and string.byte(ARGV[3], 2) == 49 and #ARGV[3] == 4 then
                value = call('GET', KEYS[1])
                delay = value and string.match(value, '^%x+ %d+ (%d+) x ', 34)
        end
        if free or delay then
                local time = call('TIME')
                local token = time[1] .. time[2]
                if #time[2] < 6 then
                        token = time[1] .. string.format('%06d', time[2])
                end
                local late = token >= '9007199254740991' or #token > 16 -- the long way knows what to do then
                local last = not late and call('GETSET', KEYS[2], token)
                if last and (#last ~= 16 or last >= token) then
                        local n = tonumber(last)
                        if not n or n >= 9007199254740991 then
                                call('SET', KEYS[2], last)
                                return redis.error_reply('CORRUPT the counter ' .. KEYS[2] .. ' is not a number below 2^53')
                        end
                        if n >= tonumber(token) then
                                token = string.format('%.0f', n + 1)
                                call('SET', KEYS[2], token)
                        end
                end
                if free and not late then -- and nobody waits
                        call('SET', KEYS[1], ARGV[1] .. token, 'PX', ARGV[2])
                        return token
                end
                local left = late and -1 or call('PTTL', KEYS[1])
                if left >= 0 and left > tonumber(delay) and string.sub(value, 1, 32) ~= string.sub(ARGV[1], 1, 32) then
                        -- Held by one of us, who will hand it on: to the end of the line. The number is the ticket.
                        local record = string.sub(ARGV[1], 1, -2)
                        local ticket = token
                        if call('ZADD', queue, 'NX', token, record) == 0 then -- asked before: its ticket stands
                                ticket = call('ZSCORE', queue, record)
                        end
                        local renews = string.byte(ARGV[3], 4) == 97
                        if renews then
                                local client = string.sub(record, 34, 49)
                                call('SET', 'pawl:alive:' .. string.sub(KEYS[2], 12) .. client, '', 'PX', '60000')
                        end
                        if renews or there == 1 then -- each client that waits renews it as often as its own lease
                                call('PEXPIRE', queue, '60000')
                        end
                        local ms = left + 2 * math.min(call('ZCARD', queue), 500)
                        return { tonumber(ticket), ms, 0, value, tonumber(token) }
                end
        end
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
        bound = 0 -- nobody waits
        give(record, ttl, token)
        return token
end
if how == '0' then
        serve()
        return 0
end

local ticket = string.sub(ARGV[3], 5)
ticket = redis.call('ZSCORE', queue, record) or (ticket ~= '' and ticket) or next_token()
if how == '2' then
        serve()
        return -tonumber(ticket)
end
redis.call('ZADD', queue, ticket, record)
redis.call('PEXPIRE', queue, QUEUE_LEASE)
redis.call('SET', 'pawl:alive:' .. space .. client, '', 'PX', QUEUE_LEASE)
serve()
held = held_by(uid)
if held then -- it may have been given just enough to confirm
        restart(uid, ttl, delay)
        return token_of(held)
end
local ms, foreign = due(record)
return { tonumber(ticket), ms, foreign, holder.value or '', last_token() }
