-- member_accept.lua: the attempt's number becomes the greatest that any of its voters gave.
-- KEYS: the lock, the namespace's marker. ARGV: run; uid; the number T.
-- Returns 1; or 0: the lock is not (or no longer) uid's, or it has a greater number here; or -1: not trusted.
local marker = redis.call('GET', KEYS[2])
if not marker or string.sub(marker, 1, 40) ~= ARGV[1] then
        return -1
end
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, 32) ~= ARGV[2] then
        return 0
end
local record, number, since = string.match(value, '^(.*) (%d+) (%d+)$')
local wanted = tonumber(ARGV[3])
if wanted < tonumber(number) then
        return 0
end
if wanted > tonumber(number) then
        redis.call('SET', KEYS[1], record .. ' ' .. ARGV[3] .. ' ' .. since, 'KEEPTTL')
        local floor, longest, flag = string.match(marker, ' (%d+) (%d+) (%a)')
        if wanted > tonumber(floor) then
                redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. longest .. ' ' .. flag)
        end
end
return 1
