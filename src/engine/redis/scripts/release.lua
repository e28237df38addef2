-- release.lua: gives a lock back and hands it on.
-- KEYS: the lock, the namespace's counter, its history. ARGV: uid; how it ends, for the history: "released +MS" with how long it was
-- held, or nothing if past owners are not remembered.
-- Returns 1; or 0: it was not (or no longer) held by uid.

-- The short way: an exclusive holder, and nobody waits.
local call = redis.call
local value = call('GET', KEYS[1])
if not value then
        return 0
end
local exclusive = string.sub(value, 1, 32) == ARGV[1]
if exclusive then
        call('DEL', KEYS[1])
        if ARGV[2] ~= '' then
                local length = redis.pcall('RPUSH', KEYS[3], ARGV[2] .. '\n' .. KEYS[1] .. '\n' .. value)
                if type(length) == 'number' and length > 2000 then
                        call('LTRIM', KEYS[3], -1000, -1)
                end
        end
        if call('EXISTS', 'pawl:queue:' .. KEYS[1]) == 0 then
                return 1
        end
end

local lock, fence, history = KEYS[1], KEYS[2], ARGV[2] ~= ''
--include common.lua

if exclusive then
        holder = { kind = 'free' }
        serve()
        return 1
end
look()
local held = held_by(ARGV[1])
if not held then
        return 0
end
remember(held, 'released')
redis.call('ZREM', share, ARGV[1])
redis.call('HDEL', who, ARGV[1])
settle_shared(true)
serve()
return 1
