-- release_many.lua: what release.lua does, for many claims in one call.
-- KEYS: the locks, the namespace's counter, its history. ARGV: of each claim: uid and, right behind it, how it ends.
-- Returns 1 if each was held; otherwise a list of what release.lua returns for each.

-- The short way: all have the exclusive holder that is to leave, and nobody waits.
local call, n = redis.call, #KEYS - 2
local values, queues, ends = call('MGET', unpack(KEYS, 1, n)), {}, {}
local held = true
for i = 1, n do
        local value, lock, word = values[i], KEYS[i], ARGV[i]
        if not value or string.sub(value, 1, 32) ~= string.sub(word, 1, 32) then
                held = false
                break
        end
        queues[i] = 'pawl:queue:' .. lock
        ends[i] = string.sub(word, 33) .. '\n' .. lock .. '\n' .. value
end
if held and call('EXISTS', unpack(queues)) == 0 then
        if #ARGV[1] > 32 then
                local length = redis.pcall('RPUSH', KEYS[n + 2], unpack(ends))
                if type(length) == 'number' and length > 1100 then
                        local past = KEYS[n + 2]
--include archive.lua
                end
        end
        call('DEL', unpack(KEYS, 1, n))
        return 1
end

local function release(KEYS, ARGV)
--include release.lua
end

local answers = {}
for i = 1, n do
        answers[i] = release({ KEYS[i], KEYS[n + 1], KEYS[n + 2] }, { string.sub(ARGV[i], 1, 32), string.sub(ARGV[i], 33) })
end
return answers
