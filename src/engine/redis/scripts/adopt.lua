-- adopt.lua: takes up a lease that outlived its process; from now on others see who did.
-- KEYS: the lock, the namespace's counter. ARGV: the record, as it would be for a lock of its own; h if past owners are remembered.
-- Returns { token, ms that the lease still stands, its lock-delay in ms }, or 0: it does not. May be sent again.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[2] == 'h'
--include common.lua
--include take_up.lua

look()
local record, uid = ARGV[1], string.sub(ARGV[1], 1, 32)
local held = held_by(uid)
if not held or string.match(held, '^%x+ %x+ (%d+) ') ~= string.match(record, '^%x+ %x+ (%d+) ') then
        return 0
end
local value, delay, left = taken_up(held, record), delay_of(held), holder.left
-- PEXPIRE first: it is never refused, and after it nothing is, also if the server's memory is full.
if holder.kind == 'one' then
        redis.call('PEXPIRE', lock, left + delay)
        redis.call('SET', lock, value, 'PX', left + delay)
else
        left = (redis.call('ZSCORE', share, uid) or now) - now
        redis.call('PEXPIRE', who, math.max(redis.call('PTTL', who), left + delay))
        redis.call('HSET', who, uid, value)
end
return { tonumber(token_of(held)), left, delay }
