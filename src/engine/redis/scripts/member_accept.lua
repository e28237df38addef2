-- member_accept.lua: the attempt's number becomes the greatest that any of its voters gave.
-- KEYS: the lock, the namespace's marker. ARGV: run and tag; uid; the number T.
-- Returns 1; or 0: the lock is not (or no longer) uid's, or it has a greater number here; or -1: not trusted.
local both = redis.call('MGET', KEYS[1], KEYS[2])
local value, marker = both[1], both[2]
if not marker or string.sub(marker, 1, 40) .. string.sub(marker, 74) ~= ARGV[1] then
        return -1
end
if not value or string.sub(value, 1, 32) ~= ARGV[2] then
        return 0
end
local wanted, number = tonumber(ARGV[3]), tonumber(string.sub(value, -30, -15))
if wanted < number then
        return 0
end
if wanted > number then
        local digits = string.format('%016.0f', wanted)
        redis.call('SET', KEYS[1], string.sub(value, 1, -31) .. digits .. string.sub(value, -14), 'KEEPTTL')
        if wanted > tonumber(string.sub(marker, 42, 57)) then
                redis.call('SET', KEYS[2], string.sub(marker, 1, 41) .. digits .. string.sub(marker, 58))
        end
end
return 1
