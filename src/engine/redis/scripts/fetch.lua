-- fetch.lua: the bytes beside a lock.
-- KEYS: the value of the lock. Returns { bytes, token, when it was stored, TIME }, as texts, times in us; or 0: there is nothing, or
-- it was to be kept no longer. A replica may be behind, and does not answer.
local info = redis.pcall('INFO', 'replication') -- who may not ask that is not kept from reading
if type(info) == 'string' and string.find(info, 'role:slave', 1, true) then
        return redis.error_reply('READONLY what it has may be old')
end
local value = redis.pcall('GET', KEYS[1])
if not value then
        return 0
end
local token, stored, ends, at
if type(value) == 'string' then
        token, stored, ends, at = string.match(value, '^v1 (%d+) %x+ %d+ (%d+) (%d+)\n()')
end
if not token then
        return redis.error_reply('CORRUPT the key ' .. KEYS[1] .. ' is not what is kept beside a lock')
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ends ~= '0' and now >= tonumber(ends) then
        return 0
end
return { string.sub(value, at), token, stored, string.format('%.0f', now) }
