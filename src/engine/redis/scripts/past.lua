-- past.lua: who held a lock before, the latest first.
-- KEYS: the lock, the namespace's history. ARGV: at most so many. The history goes on in the archive: archive.lua.
-- Returns { how, when, value } for each: when in ms, after a + how long it was held. What was seen expire by one and released by
-- another was released.
local found, order = {}, {}
local space, entries = string.sub(KEYS[2], #'pawl:past:' + 1), {}
for _, archive in ipairs({ 'pawl:older:', 'pawl:old:' }) do
        local kept = redis.pcall('HGET', archive .. space, KEYS[1])
        for entry in string.gmatch(type(kept) == 'string' and kept or '', '[^\30]+') do
                entries[#entries + 1] = entry
        end
end
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
        entries[#entries + 1] = entry
end
for i = #entries, 1, -1 do
        local how, ms, lock, value = string.match(entries[i], '^(%a+) (%+?%d+)\n([^\n]*)\n(.*)$')
        if lock == KEYS[1] then
                local uid = string.sub(value, 1, 32)
                if not found[uid] then
                        found[uid] = { how, ms, value }
                        order[#order + 1] = found[uid]
                elseif how ~= 'expired' then
                        found[uid][1], found[uid][2] = how, ms
                end
        end
        if #order > tonumber(ARGV[1]) then
                order[#order] = nil
                break
        end
end
return order
