-- probe.lua: may this user do what a guard needs? Does each of it once, on the sender's line only.
-- KEYS: a guarded key, its mark, the floor, the line. To name them is enough to be refused. Returns what was refused:
-- { command, error, ... }.

local function pawl_probe(keys)
        local refused = {}
        for _, words in ipairs({
                { 'SET', keys[4], 'probe', 'PX', '1000' },
                { 'GET', keys[4] },
                { 'STRLEN', keys[4] },
                { 'SCAN', '0', 'MATCH', keys[4], 'COUNT', '1' },
                { 'DEL', keys[4] },
        }) do
                local reply = redis.pcall(unpack(words))
                if type(reply) == 'table' and reply.err then
                        refused[#refused + 1] = words[1]
                        refused[#refused + 1] = reply.err
                end
        end
        return refused
end
