-- probe.lua: may this user do what locks need? Does each of it once, on names that nobody else uses, and leaves nothing
-- behind; the counter keeps its value.
-- KEYS: a lock, the namespace's counter. ARGV: the namespace, the client.
-- Returns what was refused: { command, error, ... }.
local lock, fence, own = KEYS[1], KEYS[2], ARGV[1] .. ARGV[2]
local queue, share, who = 'pawl:queue:' .. lock, 'pawl:share:' .. lock, 'pawl:who:' .. lock
local past, kept = 'pawl:past:' .. own, 'pawl:value:' .. lock
local refused = {}

local function try(command, ...)
        local reply = redis.pcall(command, ...)
        if type(reply) == 'table' and reply.err then
                refused[#refused + 1] = command
                refused[#refused + 1] = reply.err
                return nil
        end
        return reply
end

try('TIME')
try('INFO', 'server')
try('EXISTS', lock, queue)
try('SET', lock, 'probe', 'PX', 1000)
try('GET', lock)
try('MGET', lock)
try('PTTL', lock)
try('PEXPIRE', lock, 1000)
try('ZADD', queue, 1, 'probe')
try('ZSCORE', queue, 'probe')
try('ZCARD', queue)
try('ZRANK', queue, 'probe')
try('ZRANGE', queue, 0, -1)
try('ZREM', queue, 'probe')
try('ZPOPMIN', queue)
try('ZADD', share, 1, 'probe')
try('ZRANGEBYSCORE', share, '-inf', 1)
try('HSET', who, 'probe', '1')
try('HGET', who, 'probe')
try('HVALS', who)
try('HLEN', who)
try('HMGET', who, 'probe')
try('HDEL', who, 'probe')
try('RPUSH', past, 'probe')
try('LTRIM', past, -1, -1)
try('LRANGE', past, -1, -1)
try('RENAME', past, past)
try('SET', 'pawl:alive:' .. own, '', 'PX', 1)
try('SET', kept, 'probe', 'PX', 1000)
try('GET', kept)
try('PUBLISH', 'pawl:news:' .. own, 'probe')
try('PUBSUB', 'NUMPAT')
try('PUBSUB', 'NUMSUB', 'pawl:news:' .. own)
local last = try('GET', fence)
if last then
        try('GETSET', fence, last)
else
        try('GETSET', fence, '0')
        try('DEL', fence)
end
try('DEL', lock, queue, share, who, past, kept)
return refused
