-- member_mark.lua: from now on this server is trusted, and gives no number at or below floor.
-- KEYS: the namespace's marker, its roster. ARGV: the marker as it was seen; run; floor; longest ms; d or n; 1 to raise
-- the floor also of a server that is trusted; the roster as it was seen, and its tag. Returns 1; or 0: it is not as it
-- was seen, and nothing is changed.
local value = redis.call('GET', KEYS[1]) or ''
local mark, floor, longest, flag = string.match(value, '^(%??%x+) (%d+) (%d+) ([dn])')
local function write(least, length, kind, tag)
        local number = math.max(tonumber(ARGV[3]), tonumber(least)) -- never lowered
        redis.call('SET', KEYS[1], ARGV[2] .. string.format(' %016.0f %012.0f ', number, length) .. kind .. tag)
end
if mark == ARGV[2] then -- somebody was faster, or it is to be raised
        if ARGV[6] == '1' then
                write(floor, longest, flag, string.sub(value, 73))
        end
        return 1
end
if value ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[7] then
        return 0
end
write(floor or 0, ARGV[4], ARGV[5], ' ' .. ARGV[8])
return 1
