-- acquire_many.lua: what acquire.lua does, for many exclusive claims in one call, in their order.
-- KEYS: the locks, the namespace's counter. ARGV: the word that acquire.lua has last, without a ticket; then of each claim: the
-- record, ending in a blank; ttl + delay in ms.
-- Returns the greatest token as text if each has its lock: they have that and those below it, in their order. Otherwise a list
-- of what acquire.lua returns for each.
-- May be sent again, also one by one: if a claim makes it fail, those before it may have their locks.

-- The short way: all are free, nobody waits for any of them, and no lock is asked for twice.
local call, last = redis.call, #KEYS
local keys, asked, twice = {}, {}, false
for i = 1, last - 1 do
        local lock = KEYS[i]
        keys[2 * i - 1], keys[2 * i] = lock, 'pawl:queue:' .. lock
        twice = twice or asked[lock]
        asked[lock] = true
end
local time, format = call('TIME'), string.format
local token = time[1] * 1000000 + time[2]
if not twice and token + last < 9007199254740991 and call('EXISTS', unpack(keys)) == 0 then
        local greatest = format('%.0f', token + last - 2)
        local before = call('GETSET', KEYS[last], greatest)
        if before then
                local n = tonumber(before)
                if not n or n >= 9007199254740991 - last then
                        call('SET', KEYS[last], before)
                        return redis.error_reply('CORRUPT the counter ' .. KEYS[last] .. ' is not a number below 2^53')
                end
                if n >= token then
                        token = n + 1
                        greatest = format('%.0f', token + last - 2)
                        call('SET', KEYS[last], greatest)
                end
        end
        for i = 1, last - 1 do
                call('SET', KEYS[i], ARGV[2 * i] .. format('%.0f', token + i - 1), 'PX', ARGV[2 * i + 1])
        end
        return greatest
end

local function acquire(KEYS, ARGV)
--include acquire.lua
end

local answers = {}
for i = 1, last - 1 do
        answers[i] = acquire({ KEYS[i], KEYS[last] }, { ARGV[2 * i], ARGV[2 * i + 1], ARGV[1] })
end
return answers
