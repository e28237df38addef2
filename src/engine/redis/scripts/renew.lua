-- renew.lua: the leases of many locks begin again, if they still stand. Never makes a lock anew.
-- KEYS: the locks. ARGV: for each of them uid, ttl and lock-delay in ms.
-- Returns for each: 1; or 0: there is no such lock; or -1: somebody else has it.
local now

local function renew_shared(lock, uid, ttl, delay)
        if not now then
                local time = redis.call('TIME')
                now = time[1] * 1000 + math.floor(time[2] / 1000)
        end
        local share, who = 'pawl:share:' .. lock, 'pawl:who:' .. lock
        local ends = redis.call('ZSCORE', share, uid)
        if not ends or tonumber(ends) <= now then
                return 0
        end
        -- PEXPIRE first: it is never refused, and after it nothing is, also if the server's memory is full.
        for _, key in ipairs({ lock, share, who }) do
                redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ttl + delay))
        end
        redis.call('ZADD', share, string.format('%.0f', now + ttl), uid)
        return 1
end

local reply = {}
for i, lock in ipairs(KEYS) do
        local uid, ttl, delay = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
        local value = redis.pcall('GET', lock)
        if not value then
                reply[i] = 0
        elseif type(value) ~= 'string' then
                reply[i] = -1
        elseif string.sub(value, 1, 32) == uid then
                if delay ~= '0' and redis.call('PTTL', lock) <= tonumber(delay) then
                        reply[i] = 0
                else
                        redis.call('PEXPIRE', lock, ttl + delay)
                        reply[i] = 1
                end
        elseif string.sub(value, 1, 7) == 'shared ' then
                local fine, result = pcall(renew_shared, lock, uid, tonumber(ttl), tonumber(delay))
                reply[i] = fine and result or -1 -- one that is damaged does not keep the others from being renewed
        else
                reply[i] = -1
        end
end
return reply
