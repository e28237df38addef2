-- archive.lua: what the history has above a thousand entries, a hundred at least, moves to the archive, where each name keeps its
-- last 1,500 bytes, ten holds or so: what is known of a lock that is used seldom is not pushed out by one that is used all the
-- time. Included where the history has become too long; expects past, its key, and length, that of its list. The archive is two
-- generations of a thousand names: when the younger one is full it becomes the elder, which is forgotten. Little at a time: the
-- server stands still meanwhile.
local young = 'pawl:old:' .. string.sub(past, #'pawl:past:' + 1)
local elder = 'pawl:older:' .. string.sub(past, #'pawl:past:' + 1)
local names, texts = {}, {}
local many = math.min(150, math.max(100, length - 1000)) -- a bundle of releases adds up to 128
for _, entry in ipairs(redis.call('LRANGE', past, 0, many - 1)) do
        local name = string.match(entry, '\n([^\n]*)\n')
        local kept = name and texts[name]
        if kept then
                kept[#kept + 1] = entry
        elseif name then
                names[#names + 1], texts[name] = name, { entry }
        end
end
redis.call('LTRIM', past, many, -1)
local before, fields = redis.pcall('HMGET', young, 'none', unpack(names)), {} -- two calls for all names: they are what is dear
for i, name in ipairs(names) do
        local kept = table.concat(texts[name], '\30')
        local older = not before.err and before[i + 1]
        if older then
                kept = older .. '\30' .. kept
        end
        if #kept > 1500 then
                kept = string.sub(kept, (string.find(kept, '\30', -1500, true) or string.find(kept, '\30[^\30]*$') or 0) + 1)
        end
        fields[2 * i - 1], fields[2 * i] = name, kept
end
if #fields > 0 then
        redis.pcall('HSET', young, unpack(fields))
end
local length = redis.pcall('HLEN', young)
if type(length) ~= 'number' or length > 1000 then
        local renamed = redis.pcall('RENAME', young, elder)
        if renamed.err then
                redis.call('DEL', young)
        end
end
