-- break.lua: cuts the holders off, tells them, and hands the lock on.
-- KEYS: the lock, the namespace's counter. ARGV: h if past owners are remembered.
-- Returns how many were cut off.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[1] == 'h'
--include common.lua
must_tell = false

local cut, delay, told = 0, 0, {}
local function cut_off(value)
        local uid, client, wanted = string.match(value, '^(%x+) (%x+) %d+ (%d+) ')
        remember(value, 'broken')
        told[uid] = client
        delay = math.max(delay, tonumber(wanted))
        cut = cut + 1
end

look()
if holder.kind == 'one' then
        cut_off(holder.value)
elseif holder.kind == 'many' then
        delay = math.max(0, (holder.blocked or now) - now)
        for _, value in ipairs(redis.call('HVALS', who)) do
                cut_off(value)
        end
elseif holder.kind == 'foreign' then
        cut = 1
end
if cut == 0 then
        return 0
end
if delay > 0 then
        hold_back(delay)
else
        free()
end
for uid, client in pairs(told) do -- now that it is done
        tell(client, 'broken ' .. uid)
end
serve()
return cut
