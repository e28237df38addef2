-- break.lua: cuts the holders off, tells them, and hands the lock on.
-- KEYS: the lock, the namespace's counter. ARGV: h if past owners are remembered; the token of the one holder that is meant, 0: all
-- of them; who breaks it, and why, as words. In the history those stand behind the holder's value, on lines of their own.
-- Returns how many were cut off; -1: others hold it, and nothing was changed.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[1] == 'h'
local wanted, behind = tonumber(ARGV[2]), '\n' .. ARGV[3] .. '\n' .. ARGV[4]
--include common.lua
must_tell = false

local cut, delay, told = 0, 0, {}
local function is_meant(value)
        local token = string.match(value, '^%x+ %x+ %d+ %d+ %a %d+ %S+ %d+ %S+ %S+ (%d+)')
        return wanted == 0 or tonumber(token) == wanted
end

local function cut_off(value)
        local uid, client = string.match(value, '^(%x+) (%x+) ')
        remember(value .. behind, 'broken')
        told[uid] = client
        delay = math.max(delay, delay_of(value))
        cut = cut + 1
        return uid
end

-- What stands now, where some of the shared holders stay.
local function settle_rest()
        if delay > 0 then
                delay_until(now + delay)
                stretch(delay)
        end
        settle_shared(true)
end

look()
if holder.kind == 'one' and is_meant(holder.value) then
        cut_off(holder.value)
elseif holder.kind == 'many' then
        for _, value in ipairs(redis.call('HVALS', who)) do
                if wanted == 0 then
                        cut_off(value)
                elseif is_meant(value) then
                        leave(cut_off(value))
                end
        end
elseif holder.kind == 'foreign' and wanted == 0 then
        cut = 1
end
if cut == 0 then
        local held = holder.kind == 'one' or holder.kind == 'many'
                or holder.kind == 'foreign' and not string.find(holder.value, '^turn %x+$')
        return held and -1 or 0
end
if holder.kind == 'many' and wanted ~= 0 then
        settle_rest()
else
        delay = math.max(delay, (holder.blocked or now) - now)
        if delay > 0 then
                hold_back(delay)
        else
                free()
        end
end
for uid, client in pairs(told) do -- now that it is done
        tell(client, 'broken ' .. uid)
end
serve()
return cut
