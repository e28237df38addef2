-- past.lua: who held a lock before, the latest first.
-- KEYS: the lock, the namespace's history. ARGV: at most so many.
-- Returns { how, the id of the entry (its ms are when it ended), value } for each. What was seen expire by one and released by
-- another was released.
local found, order = {}, {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[2], '+', '-')) do
        local how, text = entry[2][1], entry[2][2]
        if string.sub(text, 1, #KEYS[1] + 1) == KEYS[1] .. '\n' then
                local value = string.sub(text, #KEYS[1] + 2)
                local token = string.match(value, ' (%d+) %d+$') or ''
                if not found[token] then
                        found[token] = { how, entry[1], value }
                        order[#order + 1] = found[token]
                elseif how ~= 'expired' then
                        found[token][1] = how
                end
        end
        if #order > tonumber(ARGV[1]) then
                order[#order] = nil
                break
        end
end
return order
