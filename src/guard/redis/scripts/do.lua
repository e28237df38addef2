-- do.lua: admits the token and runs one command on the key, in one step.
-- ARGV: the token, a command, what the command takes behind the key. "42 HSET field value" runs HSET KEY field value.
-- Returns what the command returns. If that fails the token stays admitted, and the data are as the command left them.

local function pawl_do(keys, args)
        if not args[2] then
                return redis.error_reply('INVALID there is no command behind the token')
        end
        local _, refused = admit(keys, args[1])
        if refused then
                return refused
        end
        return redis.call(args[2], keys[1], unpack(args, 3))
end
