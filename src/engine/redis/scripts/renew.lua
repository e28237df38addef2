-- renew.lua: the leases of many locks begin again, if they still stand. Never makes a lock anew.
-- KEYS: the locks. ARGV: for each of them uid, ttl and lock-delay in ms.
-- Returns for each: 1; or 0: there is no such lock; or -1: somebody else has it; or -2: it could not be renewed, nobody knows why.
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
        for _, key in ipairs({ lock, share, who, 'pawl:limit:' .. lock }) do
                redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ttl + delay))
        end
        redis.call('ZADD', share, string.format('%.0f', now + ttl), uid)
        return 1
end

-- A key that is not a lock is somebody else's. One that is damaged does not keep the others from being renewed. A refusal that
-- begins with a word of its own is the server's, as READONLY and NOREPLICAS: it is about all of them, and passes.
local function meaning_of(failure)
        local text = type(failure) == 'table' and failure.err or tostring(failure)
        if string.find(text, 'WRONGTYPE', 1, true) then
                return -1
        end
        local word = string.match(text, '^%-?(%u%u%u%u+) ')
        return -2, word and text
end

local reply = {}
for i, lock in ipairs(KEYS) do
        local uid, ttl, delay = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
        local value, refusal = redis.pcall('GET', lock), nil
        if not value then
                reply[i] = 0
        elseif type(value) ~= 'string' then
                reply[i], refusal = meaning_of(value)
        elseif string.sub(value, 1, 32) == uid then
                local left = delay ~= '0' and redis.call('PTTL', lock) or -1
                if left >= 0 and left <= tonumber(delay) then
                        reply[i] = 0
                else
                        redis.call('PEXPIRE', lock, ttl + delay)
                        reply[i] = 1
                end
        elseif string.sub(value, 1, 7) == 'shared ' then
                local fine, result = pcall(renew_shared, lock, uid, tonumber(ttl), tonumber(delay))
                reply[i] = result
                if not fine then
                        reply[i], refusal = meaning_of(result)
                end
        else
                reply[i] = -1
        end
        if refusal then
                return redis.error_reply(refusal)
        end
end
return reply
