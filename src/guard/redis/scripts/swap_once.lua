-- swap_once.lua: swap.lua under an id that is kept beside the version, so that a swap whose reply was lost can be sent again.
-- KEYS: as all, then the line of the guard, then pawl:swap:KEY, which holds the id. ARGV: the version expected, the value, the
-- id, the line's word. Returns the version that it has made, now or before.

local function pawl_swap_once(keys, args)
        local late, request = is_late(keys, args)
        if late then
                return redis.error_reply('LATE the line has moved on')
        end
        local version, refused = read_version(keys)
        if refused then
                return refused
        end
        local raised = next_version(args[1])
        if version == raised and redis.call('GET', keys[5]) == args[3] then
                leave_word(keys, request)
                return version
        end
        if version ~= args[1] then
                return stale(version)
        end
        redis.call('STRLEN', keys[1])
        local written = redis.pcall('SET', keys[2], raised)
        if written.err then
                return written
        end
        redis.call('SET', keys[1], args[2])
        redis.call('SET', keys[5], args[3])
        leave_word(keys, request)
        return raised
end
