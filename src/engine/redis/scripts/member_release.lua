-- member_release.lua: gives a lock back, if it is uid's; whether the server is trusted does not matter here.
-- KEYS: the lock, the namespace's marker. ARGV: uid; its token, or 0 for an attempt that failed; the channel on which
-- those who wait hear of it, or ''.
-- Returns 1; or 0: there is no such lock; or -1: somebody else has it.
local value = redis.call('GET', KEYS[1])
if not value then
        return 0
end
if string.sub(value, 1, 32) ~= ARGV[1] then
        return -1
end
redis.call('DEL', KEYS[1])
local token = ARGV[2]
if token ~= string.sub(value, -30, -15) and token ~= '0' then -- it has another number here
        local marker = redis.call('GET', KEYS[2]) or ''
        local floor = string.match(marker, '^%x+ (%d+) %d+ %a %x+$')
        if floor and tonumber(token) > tonumber(floor) then
                redis.call('SET', KEYS[2], string.sub(marker, 1, 41) .. string.format('%016.0f', token) ..
                        string.sub(marker, 58))
        end
end
if ARGV[3] ~= '' then
        redis.call('PUBLISH', ARGV[3], '')
end
return 1
