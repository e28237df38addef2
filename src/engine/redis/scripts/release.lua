-- release.lua: gives a lock back and hands it on.
-- KEYS: the lock, the namespace's counter, its history. ARGV: uid; how it ends, for the history: "released +MS" with how long it was
-- held, or nothing if past owners are not remembered.
-- Returns 1; or 0: it was not (or no longer) held by uid.

-- The short ways: an exclusive holder; and then nobody waits, or the first in line is to have it alone and listens.
local call = redis.call
local value = call('GET', KEYS[1])
if not value then
        return 0
end
local exclusive = string.sub(value, 1, 32) == ARGV[1]
if exclusive then
        if ARGV[2] ~= '' then
                local length = redis.pcall('RPUSH', KEYS[3], ARGV[2] .. '\n' .. KEYS[1] .. '\n' .. value)
                if type(length) == 'number' and length > 1100 then
                        local past = KEYS[3]
--include archive.lua
                end
        end
        local queue = 'pawl:queue:' .. KEYS[1]
        local first = call('ZPOPMIN', queue)
        local record = first[1]
        if not record then
                call('DEL', KEYS[1])
                return 1
        end
        local ttl, delay = string.match(record, '^(%d+) (%d+) x ', 51) -- behind uid and client
        local last_ttl, last_delay = string.match(value, '^(%d+) (%d+) ', 51)
        -- The long way, if others may have to be told that this lease ends sooner than the one that they know of; and if somebody
        -- listens to patterns, whom PUBLISH counts too.
        local ends_sooner = not ttl or not last_ttl or ttl + delay < last_ttl + last_delay or string.byte(value, -14) == 126
        local patterns = not ends_sooner and redis.pcall('PUBSUB', 'NUMPAT')
        if patterns == 0 or type(patterns) == 'table' then -- a table: it may not ask
                local time = call('TIME')
                local token = time[1] .. time[2]
                if #time[2] < 6 then
                        token = time[1] .. string.format('%06d', time[2])
                end
                -- One that has waited long may be stopped: the long way gives it just enough to confirm. One that has not needs no
                -- look at its client's lease, which was renewed not long before it asked, and lasts longer than this.
                local waited = token - first[2]
                if waited <= ttl * 166 and waited <= 20000000 and token < '9007199254740991' and #token == 16 then
                        local last = call('GETSET', KEYS[2], token)
                        if not last or (#last == 16 and last < token) then
                                local news = 'pawl:news:' .. string.sub(KEYS[2], 12) .. string.sub(record, 34, 49)
                                local grant = 'granted ' .. string.sub(record, 1, 32) .. ' ' .. token .. ' ' .. ttl .. ' ' .. KEYS[1]
                                redis.set_repl(redis.REPL_NONE) -- see tell() in common.lua
                                local heard = redis.pcall('PUBLISH', news, grant)
                                redis.set_repl(redis.REPL_ALL)
                                if type(heard) == 'number' and heard > 0 then
                                        -- A number that becomes text is dear: the ttl is text already.
                                        call('SET', KEYS[1], record .. ' ' .. token, 'PX', delay == '0' and ttl or ttl + delay)
                                        return 1
                                end
                        else
                                call('SET', KEYS[2], last)
                        end
                end
        end
        call('ZADD', queue, first[2], record)
        call('PEXPIRE', queue, '60000')
end

local lock, fence, history = KEYS[1], KEYS[2], ARGV[2] ~= ''
--include common.lua
must_tell = false

if exclusive then
        bound = bound_of(value)
        free()
        serve()
        return 1
end
look()
local held = held_by(ARGV[1])
if not held then
        return 0
end
remember(held, 'released')
leave(ARGV[1])
settle_shared(true)
serve()
return 1
