-- get.lua: admits the token and reads the key.
-- ARGV: the token. Returns the value, nil if there is none, and the greatest token until now, "0" if there was none.

local function pawl_get(keys, args)
        local before, refused = admit(keys, args[1])
        if refused then
                return refused
        end
        return { redis.call('GET', keys[1]), before or '0' }
end
