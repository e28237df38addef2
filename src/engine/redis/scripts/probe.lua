-- probe.lua: may this user do what locks need? Does each of it once, on names that nobody else uses, and leaves nothing
-- behind; the counter keeps its value.
-- KEYS: a lock, its queue, the namespace's counter, a history that is not the namespace's. ARGV: the namespace, the client.
-- Returns what was refused: { command, error, ... }.
local lock, queue, fence, past = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local share, who = 'pawl:share:' .. lock, 'pawl:who:' .. lock
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
try('EXISTS', lock, queue)
try('SET', lock, 'probe', 'PX', 1000)
try('GET', lock)
try('PTTL', lock)
try('PEXPIRE', lock, 1000)
try('ZADD', queue, 1, 'probe')
try('ZSCORE', queue, 'probe')
try('ZCARD', queue)
try('ZRANK', queue, 'probe')
try('ZRANGE', queue, 0, -1)
try('ZREM', queue, 'probe')
try('ZADD', share, 1, 'probe')
try('ZRANGEBYSCORE', share, '-inf', 1)
try('HSET', who, 'probe', '1')
try('HGET', who, 'probe')
try('HVALS', who)
try('HDEL', who, 'probe')
try('XADD', past, 'MAXLEN', '~', 1, '*', 'probe', '1')
try('XREVRANGE', past, '+', '-', 'COUNT', 1)
try('SET', 'pawl:alive:' .. ARGV[1] .. ARGV[2], '', 'PX', 1)
try('PUBLISH', 'pawl:news:' .. ARGV[1] .. ARGV[2], 'probe')
local last = try('GET', fence)
if last then
        try('GETSET', fence, last)
else
        try('GETSET', fence, '0')
        try('DEL', fence)
end
try('DEL', lock, queue, share, who, past)
return refused
