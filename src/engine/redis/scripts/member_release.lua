-- member_release.lua: gives a lock back, if it is uid's; whether the server is trusted does not matter here.
-- KEYS: the lock, the namespace's marker. ARGV: uid; its token, or 0 for an attempt that failed; the channel on which those
-- who wait hear of it, or ''.
-- Returns 1; or 0: there is no such lock; or -1: somebody else has it.
local value = redis.call('GET', KEYS[1])
if not value then
        return 0
end
if string.sub(value, 1, 32) ~= ARGV[1] then
        return -1
end
redis.call('DEL', KEYS[1])
if tonumber(ARGV[2]) > tonumber(string.match(value, ' (%d+) %d+$')) then
        local run, floor, rest = string.match(redis.call('GET', KEYS[2]) or '', '^(%x+) (%d+) (%d+ %a)$')
        if run and tonumber(ARGV[2]) > tonumber(floor) then
                redis.call('SET', KEYS[2], run .. ' ' .. ARGV[2] .. ' ' .. rest)
        end
end
if ARGV[3] ~= '' then
        redis.call('PUBLISH', ARGV[3], '')
end
return 1
