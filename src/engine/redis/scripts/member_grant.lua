-- member_grant.lua: one vote for an attempt to take a lock.
-- KEYS: the lock, the namespace's marker. ARGV: run; the record; ttl + delay in ms; the hint, 16 digits; now in unix ms.
-- Returns the number it has here; or -1: not trusted; or { uid of the other and a blank, ms left }. May be sent again: a
-- holder gets its number once more and its lease begins again.
-- Numbers have 16 digits, times 13 and lengths of leases 12, in markers and in locks: so they are found by their places.
local both = redis.call('MGET', KEYS[1], KEYS[2])
local value, marker = both[1], both[2]
if not marker or string.sub(marker, 1, 40) ~= ARGV[1] then
        return -1
end
if value then
        if string.sub(value, 1, 32) ~= string.sub(ARGV[2], 1, 32) then
                return { string.sub(value, 1, 33), redis.call('PTTL', KEYS[1]) }
        end
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return tonumber(string.sub(value, -30, -15))
end
local number, floor, rest = ARGV[4], tonumber(string.sub(marker, 42, 57)), string.sub(marker, 58)
if tonumber(number) <= floor then
        number = string.format('%016.0f', floor + 1)
end
-- NX: MGET tells a key that is no string, and so no lock, as if there were none.
if not redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. number .. ' ' .. ARGV[5], 'NX', 'PX', ARGV[3]) then
        return { '', redis.call('PTTL', KEYS[1]) }
end
if tonumber(ARGV[3]) > tonumber(string.sub(rest, 2, 13)) then
        rest = string.format(' %012.0f', ARGV[3]) .. string.sub(rest, 14)
end
redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. number .. rest)
return tonumber(number)
