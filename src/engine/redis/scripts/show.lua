-- show.lua: who holds locks, and who waits for them.
-- KEYS: the locks. ARGV: how many waiters are told of each.
-- Returns for each: { kind, ms left, number of waiters, { value, ms left, ... } of the holders, { record, ticket, ... } }.
-- Changes nothing, so it may be run on a replica.
local function holders(lock, value, now)
        local list = {}
        if string.find(value, '^shared %d+') then
                local ends = redis.call('ZRANGE', 'pawl:share:' .. lock, 0, -1, 'WITHSCORES')
                for i = 1, #ends, 2 do
                        local who = redis.call('HGET', 'pawl:who:' .. lock, ends[i])
                        if who and tonumber(ends[i + 1]) > now then
                                list[#list + 1] = who
                                list[#list + 1] = ends[i + 1] - now
                        end
                end
                return 'many', list
        end
        local uid, delay = string.match(value, '^(%x+) %x+ %d+ (%d+) x ')
        local left = redis.call('PTTL', lock)
        if uid and #uid == 32 then
                if left >= 0 and left <= tonumber(delay) then -- negative: somebody has taken its end away by hand
                        return 'delay', list
                end
                return 'one', { value, math.max(0, left - delay) }
        end
        if value == 'delay' or string.find(value, '^turn %x+$') then -- of a quorum: kept for the next one
                return 'delay', list
        end
        return 'foreign', { value, left }
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {}
for i, lock in ipairs(KEYS) do
        local value = redis.pcall('GET', lock)
        local kind, list = 'free', {}
        if type(value) == 'string' then
                kind, list = holders(lock, value, now)
        elseif value then
                kind = 'damaged'
        end
        local queue = 'pawl:queue:' .. lock
        local count, waiters = redis.pcall('ZCARD', queue), {}
        if type(count) ~= 'number' then
                count = 0 -- no queue of ours; a listing does not end at it
        elseif ARGV[1] ~= '0' then -- for ZRANGE a last place of -1 is the very last
                waiters = redis.call('ZRANGE', queue, 0, ARGV[1] - 1, 'WITHSCORES')
        end
        reply[i] = { kind, redis.call('PTTL', lock), count, list, waiters }
end
return reply
