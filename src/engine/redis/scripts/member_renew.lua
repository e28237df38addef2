-- member_renew.lua: the leases of many locks begin again, where they still stand. Never makes a lock anew.
-- KEYS: the namespace's marker, then the locks. ARGV: run and tag, then for each lock uid, ttl in ms, lock-delay in ms,
-- token. Returns for each: 1; or 0: there is no such lock; or -1: somebody else has it. Or -1 for all: not trusted.
local marker = redis.call('GET', KEYS[1])
if not marker or string.sub(marker, 1, 40) .. string.sub(marker, 74) ~= ARGV[1] then
        return -1
end
local reply, most = {}, 0
for i = 2, #KEYS do
        local at = 4 * i - 6
        local uid, ttl, delay, token = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
        local value = redis.pcall('GET', KEYS[i])
        local answer = 0
        if type(value) == 'string' and string.sub(value, 1, 32) == uid then
                -- in the last DELAY ms the lock is not held, only not free
                if delay == '0' or redis.call('PTTL', KEYS[i]) > tonumber(delay) then
                        redis.call('PEXPIRE', KEYS[i], ttl + delay)
                        answer = 1
                end
        elseif value then
                answer = -1
        end
        if token > most then
                most = token
        end
        reply[i - 1] = answer
end
if most > tonumber(string.sub(marker, 42, 57)) then
        redis.call('SET', KEYS[1], string.sub(marker, 1, 41) .. string.format('%016.0f', most) .. string.sub(marker, 58))
end
return reply
