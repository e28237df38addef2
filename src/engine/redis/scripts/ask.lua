-- ask.lua: asks the holders to let go. Those of other clients cannot be asked.
-- KEYS: the lock, its queue, the namespace's counter and history. ARGV: the namespace; how many past owners are kept.
-- Returns how many hold it.
local lock, queue, fence, past, space, keep = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
--include common.lua

local asked = 0
local function ask(value)
        local uid, client = string.match(value, '^(%x+) (%x+) ')
        redis.call('PUBLISH', 'pawl:news:' .. space .. client, 'asked ' .. uid)
        asked = asked + 1
end

look()
if holder.kind == 'one' then
        ask(holder.value)
elseif holder.kind == 'many' then
        for _, value in ipairs(redis.call('HVALS', who)) do
                ask(value)
        end
elseif holder.kind == 'foreign' then
        asked = 1
end
return asked
