-- swap.lua: replaces the value of the key and raises its version by one, if the version is the one expected.
-- ARGV: the version expected, the value, then what SET takes behind it. Returns the new version, or the error "STALE greatest
-- is N", where N is the version that it has. A key that is no string is left alone: WRONGTYPE, and nothing has changed.

local function pawl_swap(keys, args)
        local late, request = is_late(keys, args)
        if late then
                return redis.error_reply('LATE the line has moved on')
        end
        if args[1] ~= '0' and (not is_token(args[1]) or args[1] == GREATEST) then
                return redis.error_reply('INVALID the version must be a number >= 0 and < 2^63 - 1')
        end
        local version, refused = read_version(keys)
        if refused then
                return refused
        end
        if version ~= args[1] then
                return stale(version)
        end
        redis.call('STRLEN', keys[1])
        local raised = next_version(version)
        local written = redis.pcall('SET', keys[2], raised)
        if written.err then
                return written
        end
        redis.call('SET', keys[1], unpack(args, 2))
        leave_word(keys, request)
        return raised
end
