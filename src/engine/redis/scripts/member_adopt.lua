-- member_adopt.lua: takes up a lease that outlived its process, if the lock is uid's.
-- KEYS: the lock, the namespace's marker. ARGV: run and tag; the record, as it would be for a lock of its own.
-- Returns { ms that its lease still stands, its lock-delay in ms }; or 0: it does not; or -1: not trusted; or -2:
-- somebody else has it. May be sent again.
local marker = redis.call('GET', KEYS[2])
if not marker or string.sub(marker, 1, 40) .. string.sub(marker, 74) ~= ARGV[1] then
        return -1
end
local value = redis.call('GET', KEYS[1])
if not value then
        return 0
end
if string.sub(value, 1, 32) ~= string.sub(ARGV[2], 1, 32) then
        return -2
end
local delay = tonumber(string.match(value, '^%x+ %x+ %d+ (%d+)'))
local lives = redis.call('PTTL', KEYS[1])
if lives <= delay then
        return 0
end
--include take_up.lua
redis.call('PEXPIRE', KEYS[1], lives) -- it is never refused, and after it nothing is, also if the server's memory is full
redis.call('SET', KEYS[1], taken_up(value, ARGV[2]), 'PX', lives)
return { lives - delay, delay }
