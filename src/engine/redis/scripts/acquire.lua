-- acquire.lua: takes the lock, or stands in line for it.
-- KEYS: the lock, its queue, the namespace's counter and history. ARGV: the record; ttl + delay in ms; the mode, x or s, and
-- what to do if it is not free: 0 nothing, 1 stand in line, 2 take a ticket, to stand in line with it later; the namespace;
-- the ticket it had before, or ''; how many past owners are kept.
-- Returns the token; or 0: not free; or the ticket as a negative number; or, if it stands in line, { ticket, ms until to look
-- again, 1 if the holder is not one of us, the holder's value }. May be sent again: a holder gets its token once more and its
-- lease begins again.

-- The short way: free, and nobody waits.
if string.byte(ARGV[3]) == 120 and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
        local time = redis.call('TIME')
        local token = time[1] .. string.format('%06d', time[2])
        local last = redis.call('GETSET', KEYS[3], token)
        if last and tonumber(last) >= tonumber(token) then
                token = string.format('%.0f', last + 1)
                redis.call('SET', KEYS[3], token)
        end
        redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token .. ' ' .. string.sub(token, 1, 13), 'PX', ARGV[2])
        return tonumber(token)
end

local lock, queue, fence, past, space, keep = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[6]
--include common.lua

local record, uid = ARGV[1], string.sub(ARGV[1], 1, 32)
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
        return tonumber(token)
end
local how = string.sub(ARGV[3], 2)
if how == '0' then
        serve()
        return 0
end

local ticket = redis.call('ZSCORE', queue, record) or (ARGV[5] ~= '' and ARGV[5])
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
