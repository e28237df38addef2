-- store.lua: keeps bytes beside a lock, if uid has it alone at this moment.
-- KEYS: the lock, its value. ARGV: uid; its token; the client; the number of this store, each of a client's greater than the one
-- before; for how long to keep it in ms, or 0; the bytes, none: keep nothing any more.
-- Returns 1; or 0: the lock is not held by uid, and nothing was changed; or -1: it is not, and a later holder has stored since, or
-- who took this lease up, so that nobody can say whether this was done before.
--
-- A value is  v1 TOKEN CLIENT NUMBER STORED UNTIL  and, after a line feed, the bytes; times in us, UNTIL 0 for ever. May be sent
-- again, and may come late: what was done is not done twice, and what its client has replaced meanwhile stays replaced. So what
-- is kept no longer stays in its place for a while, over: a late one must find it.
local LATE = 60000 -- ms
local uid, token, client, number, keep, bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local call = redis.call

local kept, before, by, last = redis.pcall('GET', KEYS[2]), 0, nil, nil
if type(kept) == 'string' then
        before, by, last = string.match(kept, '^v1 (%d+) (%x+) (%d+) ')
end
if by == client and before == token and tonumber(last) >= tonumber(number) then
        return 1 -- of another grant of the same client it says nothing
end

local value, delay = redis.pcall('GET', KEYS[1]), nil
if type(value) == 'string' and string.sub(value, 1, 32) == uid then
        delay = string.match(value, '^%x+ %x+ %d+ (%d+) x ') -- in the last DELAY ms the lock is not held, only not free
end
if not delay or call('PTTL', KEYS[1]) <= tonumber(delay) then
        local later = tonumber(before or 0) - tonumber(token)
        return (later > 0 or (later == 0 and by ~= client)) and -1 or 0
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ends = 0
if bytes == '' then
        ends = now
        call('DEL', KEYS[2]) -- first: it is never refused, and after it nothing is, also if the server's memory is full
elseif keep ~= '0' then
        ends = now + keep * 1000
end
local text = 'v1 ' .. token .. ' ' .. client .. ' ' .. number .. string.format(' %.0f %.0f\n', now, ends) .. bytes
if ends == 0 then
        call('SET', KEYS[2], text)
else
        call('SET', KEYS[2], text, 'PX', string.format('%.0f', (bytes == '' and 0 or keep) + LATE))
end
return 1
