-- look.lua: reads the key and its version, and admits nothing. For resources that have a version instead of a lock.
-- No ARGV. Returns the value, nil if there is none, and the version.

local function pawl_look(keys)
        local version, refused = read_version(keys)
        if refused then
                return refused
        end
        return { redis.call('GET', keys[1]), version }
end
