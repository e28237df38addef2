-- give_turn.lua: included. The lock KEYS[1] is free: the first in its queue KEYS[3] that still listens gets it for a moment,
-- in which nobody else can take it. With near the one behind it is told to try after that moment, should the first not.
local function give_turn(news, name, near)
        for _ = 1, 1000 do
                local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
                if not first then
                        return
                end
                local heard = redis.pcall('PUBLISH', news .. first, 'turn ' .. first .. first .. ' ' .. name)
                if type(heard) ~= 'number' then -- who may not publish can give the lock back all the same
                        return
                end
                redis.call('ZREM', KEYS[3], first)
                if heard > 0 then
                        redis.pcall('SET', KEYS[1], 'turn ' .. first, 'NX', 'PX', 25) -- refused if its memory is full
                        local next = near and redis.call('ZRANGE', KEYS[3], 0, 0)[1]
                        if next then
                                redis.pcall('PUBLISH', news .. next, 'near ' .. next .. next .. ' ' .. name)
                        end
                        return
                end
        end
end
