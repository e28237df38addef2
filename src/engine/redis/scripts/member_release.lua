-- member_release.lua: gives a lock back, if it is uid's; whether the server is trusted does not matter here.
-- KEYS: the lock, the namespace's marker, the lock's queue. ARGV: uid; its token, or 0 for an attempt that failed; where
-- clients listen, or '': nobody gets a turn; the lock's name; the client; n to tell the second in the queue, too.
-- Returns 1; or 0: there is no such lock; or -1: somebody else has it.
--include give_turn.lua
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, 32) ~= ARGV[1] then
        if ARGV[3] ~= '' and value == 'turn ' .. ARGV[5] then -- we had it without this one
                redis.call('DEL', KEYS[1])
                value = false
        end
        if not value and ARGV[3] ~= '' then
                give_turn(ARGV[3], ARGV[4], ARGV[6] == 'n')
        end
        return value and -1 or 0
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
        give_turn(ARGV[3], ARGV[4], ARGV[6] == 'n')
end
return 1
