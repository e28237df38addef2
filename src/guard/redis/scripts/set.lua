-- set.lua: admits the token and replaces the value of the key.
-- ARGV: the token, the value, then what SET takes behind it (EX 60, ...). Returns OK. A key that is no string is left alone:
-- WRONGTYPE, and nothing has changed.

local function pawl_set(keys, args)
        local late, request = is_late(keys, args)
        if late then
                return redis.error_reply('LATE the line has moved on')
        end
        local _, refused = look(keys, args[1])
        if refused then
                return refused
        end
        redis.call('STRLEN', keys[1])
        local _, unwritten = admit(keys, args[1])
        if unwritten then
                return unwritten
        end
        local reply = redis.call('SET', keys[1], unpack(args, 2))
        leave_word(keys, request)
        return reply
end
