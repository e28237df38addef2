-- archive.lua: the oldest hundred of the history move to the archive, where each name keeps its last eight: so what is known of a
-- lock that is used seldom is not pushed out by one that is used all the time. Included where the history has become too long;
-- expects past, the key of the history. The archive is two generations of a thousand names: when the younger one is full it
-- becomes the older one, which is forgotten. Little at a time: the server stands still meanwhile.
local names, texts = {}, {}
for _, entry in ipairs(redis.call('LRANGE', past, 0, 99)) do
        local name = string.match(entry, '^[^\n]*\n([^\n]*)\n')
        if name then
                if not texts[name] then
                        names[#names + 1], texts[name] = name, {}
                end
                table.insert(texts[name], entry)
        end
end
redis.call('LTRIM', past, 100, -1)
local young = 'pawl:old:' .. string.sub(past, #'pawl:past:' + 1)
local elder = 'pawl:older:' .. string.sub(past, #'pawl:past:' + 1)
for _, name in ipairs(names) do
        local before = redis.pcall('HGET', young, name)
        local kept = {}
        for entry in string.gmatch(type(before) == 'string' and before or '', '[^\30]+') do
                kept[#kept + 1] = entry
        end
        for _, entry in ipairs(texts[name]) do
                kept[#kept + 1] = entry
        end
        redis.pcall('HSET', young, name, table.concat(kept, '\30', math.max(1, #kept - 7)))
end
local length = redis.pcall('HLEN', young)
if type(length) ~= 'number' or length > 1000 then
        local renamed = redis.pcall('RENAME', young, elder)
        if renamed.err then
                redis.call('DEL', young)
        end
end
