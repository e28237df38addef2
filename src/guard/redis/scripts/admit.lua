-- admit.lua: from now on smaller tokens are refused.
-- ARGV: the token. Returns OK, or the error "STALE greatest is N".

local function pawl_admit(keys, args)
        local _, refused = admit(keys, args[1])
        return refused or redis.status_reply('OK')
end
