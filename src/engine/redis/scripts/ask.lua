-- ask.lua: asks the holders to let go. Those of other clients cannot be asked.
-- KEYS: the lock, the namespace's counter. ARGV: h if past owners are remembered.
-- Returns how many hold it.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[1] == 'h'
--include common.lua

local asked = 0
local function ask(value)
        local uid, client = string.match(value, '^(%x+) (%x+) ')
        local heard, refused = tell(client, 'asked ' .. uid)
        if heard == nil then
                error(refused)
        end
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
