-- prune.lua: raises the floor, then forgets the marks that are not above it.
-- KEYS: the floor, marks. ARGV: the new floor. Returns how many were forgotten. A floor is never lowered, and what is damaged
-- stays.

local function pawl_prune(keys, args)
        if not is_token(args[1]) then
                return redis.error_reply('INVALID the floor must be a number > 0 and < 2^63')
        end
        local floor, damaged = read_token(keys[1])
        if damaged then
                return damaged
        end
        if not floor or is_older(floor, args[1]) then
                floor = args[1]
        end
        redis.call('SET', keys[1], floor)
        local count = 0
        for i = 2, #keys do
                local mark = read_token(keys[i])
                if mark and not is_older(floor, mark) then
                        count = count + redis.call('DEL', keys[i])
                        forget_swap(keys[i])
                end
        end
        return count
end
