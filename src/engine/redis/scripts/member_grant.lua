-- member_grant.lua: one vote for an attempt to take a lock.
-- KEYS: the lock, the namespace's marker, the lock's queue. ARGV: run; the record; ttl + delay in ms; the hint, 16 digits;
-- now in unix ms; what is expected of the marker behind its floor, with a longest lease of at least ours: " LONGEST FLAG
-- TAG"; the client; its ticket, to be queued if the lock is not free, or ''; q if it may be queued already.
-- Returns the number it has here; or { number, what is behind the floor } where that was not as expected; or -1: not
-- trusted; or { uid of the other and a blank, ms left, how many are before us in the queue }. May be sent again: a holder
-- gets its number once more and its lease begins again.
-- Numbers have 16 digits, times 13 and lengths of leases 12, in markers and in locks: so they are found by their places.
local run, record, hint, rest = ARGV[1], ARGV[2], ARGV[4], ARGV[6]

local function is_ours(marker)
        return marker and string.sub(marker, 1, 40) == run and string.sub(marker, 74) == string.sub(rest, 17)
end

-- The lock has the hint as its number; if that is not above the floor, both get another.
local function vote(marker)
        if ARGV[9] == 'q' then
                redis.call('ZREM', KEYS[3], ARGV[7])
        end
        if string.sub(marker, 42, 57) < hint and string.sub(marker, 58) == rest then
                return tonumber(hint)
        end
        local number = math.max(tonumber(hint), string.sub(marker, 42, 57) + 1)
        local longest = math.max(tonumber(string.sub(rest, 2, 13)), tonumber(string.sub(marker, 59, 70)))
        local digits = string.format('%016.0f', number)
        rest = string.format(' %012.0f', longest) .. string.sub(marker, 71)
        redis.call('SET', KEYS[2], run .. ' ' .. digits .. rest)
        redis.call('SET', KEYS[1], record .. ' ' .. digits .. ' ' .. ARGV[5], 'PX', ARGV[3])
        return { number, rest }
end

-- The short way writes first and looks at what was there before: two commands.
local value = record .. ' ' .. hint .. ' ' .. ARGV[5]
if redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[3]) then
        local marker = redis.call('GETSET', KEYS[2], run .. ' ' .. hint .. rest)
        if is_ours(marker) then
                return vote(marker)
        end
        redis.call('DEL', KEYS[1], KEYS[2])
        if marker then
                redis.call('SET', KEYS[2], marker)
        end
        return -1
end

local marker = redis.call('GET', KEYS[2])
if not is_ours(marker) then
        return -1
end
local other = redis.pcall('GET', KEYS[1])
if type(other) ~= 'string' then -- not a string, and so not a lock of ours
        other = ''
end
if string.sub(other, 1, 32) == string.sub(record, 1, 32) then
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return tonumber(string.sub(other, -30, -15))
end
if other == 'turn ' .. ARGV[7] then -- kept for us by who released it
        redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
        redis.call('SET', KEYS[2], run .. ' ' .. hint .. rest)
        return vote(marker)
end
local before = 0
if ARGV[8] ~= '' and type(redis.pcall('ZADD', KEYS[3], ARGV[8], ARGV[7])) == 'number' then
        redis.call('PEXPIRE', KEYS[3], 60000)
        before = redis.call('ZRANK', KEYS[3], ARGV[7])
end
if string.sub(other, 1, 5) == 'turn ' then
        other = string.rep(string.sub(other, 6), 2) .. ' '
end
return { string.sub(other, 1, 33), redis.call('PTTL', KEYS[1]), before }
