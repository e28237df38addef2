-- wait.lua: claims that wait look again: were they granted, do they still stand in line, is the holder's lease over?
-- KEYS: the lock, the namespace's counter. ARGV: h if past owners are remembered; the client; the value of the holder when it last
-- looked; then record and ticket of each claim.
-- Returns { ms until to look again, 0 or the place in line if the holder is not one of us, the holder's value, the counter (a grant
-- that is told later has a greater token), then for each claim its token, or 0 if it waits }. The lease of one that was granted begins again.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[1] == 'h'
--include common.lua

-- PEXPIRE first: it is never refused, and after it nothing is, also if the server's memory is full: a holder that died there
-- would keep those who wait.
redis.call('PEXPIRE', queue, QUEUE_LEASE)
redis.call('SET', 'pawl:alive:' .. space .. ARGV[2], '', 'PX', QUEUE_LEASE)
look()
for i = 4, #ARGV, 2 do
        local uid = string.sub(ARGV[i], 1, 32)
        if not held_by(uid) and not redis.call('ZSCORE', queue, ARGV[i]) then
                redis.call('ZADD', queue, ARGV[i + 1], ARGV[i])
        end
end
redis.call('PEXPIRE', queue, QUEUE_LEASE)
-- A release would have handed the lock on: free although somebody waits means that its holder's lease ran out.
if holder.kind == 'free' and string.match(ARGV[3], '^%x+ %x+ %d+ %d+ %a ') then
        remember(ARGV[3], 'expired')
end
serve()
local ms, foreign = due(ARGV[4])
if foreign > 1 then
        remind(100, true) -- is the first still there, who looks oftener?
end
local reply = { ms, foreign, holder.value or '', last_token() }
for i = 4, #ARGV, 2 do
        local uid = string.sub(ARGV[i], 1, 32)
        local held = held_by(uid)
        if held then
                local ttl, delay = string.match(ARGV[i], '^%x+ %x+ (%d+) (%d+) ')
                restart(uid, tonumber(ttl), delay)
        end
        reply[#reply + 1] = held and tonumber(token_of(held)) or 0
end
return reply
