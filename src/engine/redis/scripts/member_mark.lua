-- member_mark.lua: from now on this server is trusted, and gives no number at or below floor.
-- KEYS: the namespace's marker. ARGV: the marker as it was seen; run; floor; longest ms; d or n; 1 to raise the floor
-- also of a server that is trusted.
-- Returns 1; or 0: it is not as it was seen, and nothing is changed.
local value = redis.call('GET', KEYS[1]) or ''
local mark, floor, longest, flag = string.match(value, '^(%??%x+) (%d+) (%d+) ([dn])')
local function write(least, length, kind)
        local number = math.max(tonumber(ARGV[3]), tonumber(least)) -- never lowered
        redis.call('SET', KEYS[1], ARGV[2] .. string.format(' %016.0f %012.0f ', number, length) .. kind)
end
if mark == ARGV[2] then -- somebody was faster, or it is to be raised
        if ARGV[6] == '1' then
                write(floor, longest, flag)
        end
        return 1
end
if value ~= ARGV[1] then
        return 0
end
write(floor or 0, ARGV[4], ARGV[5])
return 1
