-- release.lua: gives a lock back and hands it on.
-- KEYS: the lock, its queue, the namespace's counter and history. ARGV: uid; the lock-delay in ms; lost: 1 if the lease ran
-- out by the holder's clock, which is a failure and not a release; the namespace; how many past owners are kept.
-- Returns 1; or 0: it was not (or no longer) held by uid.

-- The short way: an exclusive holder without a lock-delay.
local lock, queue, fence, past, space, keep = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5]
local uid = ARGV[1]
local short = false
if ARGV[2] == '0' and ARGV[3] == '0' then
        local value = redis.call('GET', lock)
        if not value then
                return 0
        end
        if string.sub(value, 1, 32) == uid then
                redis.call('DEL', lock)
                if keep ~= '0' then
                        redis.call('XADD', past, 'MAXLEN', '~', keep, '*', 'released', lock .. '\n' .. value)
                end
                if redis.call('EXISTS', queue) == 0 then
                        return 1
                end
                short = true
        end
end
--include common.lua

if short then
        holder = { kind = 'free' }
        serve()
        return 1
end
look()
local held = held_by(uid)
if not held then
        return 0
end
local lost, delay = ARGV[3] == '1', tonumber(ARGV[2])
remember(held, lost and 'expired' or 'released')
if holder.kind == 'one' then
        if lost and delay > 0 then
                hold_back(delay)
        else
                free()
        end
else
        redis.call('ZREM', share, uid)
        redis.call('HDEL', who, uid)
        if lost and delay > 0 then
                redis.call('ZADD', share, number(now + delay), '#delay')
                stretch(delay)
        end
        settle_shared(true)
end
serve()
return 1
