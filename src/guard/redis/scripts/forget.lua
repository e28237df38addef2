-- forget.lua: admits the token, then forgets the mark, but not the value: tokens from the floor on pass again.
-- ARGV: the token. Returns 1, or 0 if there was no mark.

local function pawl_forget(keys, args)
        local late, request = is_late(keys, args)
        if late then
                return redis.error_reply('LATE the line has moved on')
        end
        local _, refused = look(keys, args[1])
        if refused then
                return refused
        end
        local count = redis.call('DEL', keys[2])
        forget_swap(keys[2])
        if count > 0 then
                leave_word(keys, request)
        end
        return count
end
