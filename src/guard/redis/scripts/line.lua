-- line.lua: takes the line of a sender, so that whatever it sent before is refused from now on.
-- KEYS: the line: a word, and the number of the last request that was done. ARGV: another word, and the number to begin with if
-- there is no line. Returns the number.

local function pawl_line(keys, args)
        local line = redis.call('GET', keys[1])
        local number = line and string.sub(line, 18) or args[2]
        redis.call('SET', keys[1], args[1] .. ' ' .. number, 'PX', '600000')
        return number
end
