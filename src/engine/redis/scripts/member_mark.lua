-- member_mark.lua: from now on this server is trusted, and gives no number at or below floor.
-- KEYS: the namespace's marker. ARGV: the marker as it was seen; run; floor; longest ms; d or n; 1 to raise the floor also
-- of a server that is trusted.
-- Returns 1; or 0: it is not as it was seen, and nothing is changed.
local value = redis.call('GET', KEYS[1]) or ''
local mark, floor, longest, flag = string.match(value, '^(%x+) (%d+) (%d+) ([dn])$')
if mark == ARGV[2] then -- somebody was faster, or it is to be raised: never lowered
        if ARGV[6] == '1' and tonumber(ARGV[3]) > tonumber(floor) then
                redis.call('SET', KEYS[1], mark .. ' ' .. ARGV[3] .. ' ' .. longest .. ' ' .. flag)
        end
        return 1
end
if value ~= ARGV[1] then
        return 0
end
local wanted, before = ARGV[3], string.match(value, '^%??%x+ (%d+) ') or '0'
if tonumber(before) > tonumber(wanted) then
        wanted = before
end
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. wanted .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return 1
