-- member_grant.lua: one vote for an attempt to take a lock.
-- KEYS: the lock, the namespace's marker. ARGV: run; the record; ttl + delay in ms; the hint, 16 digits; now in unix ms;
-- what is expected of the marker behind its floor, with a longest lease of at least ours: " LONGEST FLAG TAG".
-- Returns the number it has here; or { number, what is behind the floor } where that was not as expected; or -1: not
-- trusted; or { uid of the other and a blank, ms left }. May be sent again: a holder gets its number once more and its
-- lease begins again.
-- Numbers have 16 digits, times 13 and lengths of leases 12, in markers and in locks: so they are found by their places.
local run, record, hint, rest = ARGV[1], ARGV[2], ARGV[4], ARGV[6]

-- The short way writes first and looks at what was there before: two commands.
if redis.call('SET', KEYS[1], record .. ' ' .. hint .. ' ' .. ARGV[5], 'NX', 'PX', ARGV[3]) then
        local marker = redis.call('GETSET', KEYS[2], run .. ' ' .. hint .. rest)
        local trusted = marker and string.sub(marker, 1, 40) == run and string.sub(marker, 74) == string.sub(rest, 17)
        if trusted and string.sub(marker, 42, 57) < hint and string.sub(marker, 58) == rest then
                return tonumber(hint)
        end
        if not trusted then
                redis.call('DEL', KEYS[1], KEYS[2])
                if marker then
                        redis.call('SET', KEYS[2], marker)
                end
                return -1
        end
        local number = math.max(tonumber(hint), string.sub(marker, 42, 57) + 1)
        local longest = math.max(tonumber(string.sub(rest, 2, 13)), tonumber(string.sub(marker, 59, 70)))
        local digits = string.format('%016.0f', number)
        rest = string.format(' %012.0f', longest) .. string.sub(marker, 71)
        redis.call('SET', KEYS[2], run .. ' ' .. digits .. rest)
        redis.call('SET', KEYS[1], record .. ' ' .. digits .. ' ' .. ARGV[5], 'PX', ARGV[3])
        return { number, rest }
end

local marker = redis.call('GET', KEYS[2])
if not marker or string.sub(marker, 1, 40) ~= run or string.sub(marker, 74) ~= string.sub(rest, 17) then
        return -1
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then -- not a string, and so not a lock of ours
        value = ''
end
if string.sub(value, 1, 32) ~= string.sub(record, 1, 32) then
        return { string.sub(value, 1, 33), redis.call('PTTL', KEYS[1]) }
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return tonumber(string.sub(value, -30, -15))
