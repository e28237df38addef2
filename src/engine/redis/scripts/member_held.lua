-- member_held.lua: is the lock uid's, and for how long?
-- KEYS: the lock, the namespace's marker. ARGV: run; uid.
-- Returns the ms that its lease still stands; or 0: it does not; or -1: not trusted; or -2: somebody else has it.
local marker = redis.call('GET', KEYS[2])
if not marker or string.sub(marker, 1, 40) ~= ARGV[1] then
        return -1
end
local value = redis.call('GET', KEYS[1])
if not value then
        return 0
end
if string.sub(value, 1, 32) ~= ARGV[2] then
        return -2
end
return math.max(0, redis.call('PTTL', KEYS[1]) - string.match(value, '^%x+ %x+ %d+ (%d+)'))
