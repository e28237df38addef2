-- member_grant.lua: one vote for an attempt to take a lock.
-- KEYS: the lock, the namespace's marker. ARGV: run; the record; ttl + delay in ms; the hint.
-- Returns the number it has here; or -1: not trusted; or { uid of the other, ms left }. May be sent again: a holder gets its
-- number once more and its lease begins again.
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
        return tonumber(string.match(value, ' (%d+) %d+$'))
end
local floor, longest, flag = string.match(marker, ' (%d+) (%d+) (%a)')
local time = redis.call('TIME')
-- A client whose clock is wrong must not run away with the numbers: no hint is more than a second ahead of ours.
local number = math.min(tonumber(ARGV[4]), (time[1] + 1) * 1000000 + time[2])
if number <= tonumber(floor) then
        number = floor + 1
end
number = string.format('%.0f', number)
local since = time[1] .. string.format('%03d', time[2] / 1000)
-- NX: MGET tells a key that is no string, and so no lock, as if there were none.
if not redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. number .. ' ' .. since, 'NX', 'PX', ARGV[3]) then
        return { '', redis.call('PTTL', KEYS[1]) }
end
if tonumber(ARGV[3]) > tonumber(longest) then
        longest = ARGV[3]
end
redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. number .. ' ' .. longest .. ' ' .. flag)
return tonumber(number)
