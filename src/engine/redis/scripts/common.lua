-- common.lua: what stands in the way of a lock, and handing it on. Included by the scripts that need it, after their own
-- short way: a script runs from its first line each time, and even defining functions costs.
--
-- Expects: lock and fence (keys), history (true if past owners are remembered).
--
-- A lock's value is  UID CLIENT TTL DELAY MODE LIMIT FLAGS AGE OWNER NOTE TOKEN [SINCE]  for an exclusive holder,
-- "shared LIMIT" for shared ones (who they are stands in share and who), "delay" in a lock-delay; anything else was
-- written by a client that is not ours. A waiter's record is the same without TOKEN and SINCE; SINCE (ms) is left out where it
-- is the token's own time. OWNER is TAKER<MAKER where a lease was taken up (take_up.lua).

local QUEUE_LEASE = 60000 -- a queue that nobody looks after vanishes; its clients look at least three times as often
local HISTORY = 1000 -- past owners of the namespace, and up to as many again
local space = string.sub(fence, #'pawl:fence:' + 1)
local queue, share, who = 'pawl:queue:' .. lock, 'pawl:share:' .. lock, 'pawl:who:' .. lock
local past = 'pawl:past:' .. space
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = {}

local function number(n)
        return string.format('%.0f', n)
end

-- Greater than every one before: also if the counter was lost, as long as the clock was not set back as well.
local function last_token()
        local last = tonumber(redis.call('GET', fence) or 0)
        if not last or last >= 9007199254740991 then
                error('CORRUPT the counter ' .. fence .. ' is not a number below 2^53')
        end
        return last
end

local function next_token()
        local token = time[1] * 1000000 + time[2]
        local last = last_token()
        if last >= token then
                token = last + 1
        end
        token = number(token)
        redis.call('SET', fence, token)
        return token
end

-- How and when it ended, the lock, the value of its holder.
local function remember(value, how, at)
        if history then
                local entry = how .. ' ' .. number(at or now) .. '\n' .. lock .. '\n' .. value
                local length = redis.pcall('RPUSH', past, entry) -- a damaged history must not keep a lock
                if type(length) == 'number' and length > 2 * HISTORY then
                        redis.call('LTRIM', past, -HISTORY, -1)
                end
        end
end

-- 0 stands for no limit.
local function least(a, b)
        if a == 0 or (b ~= 0 and b < a) then
                return b
        end
        return a
end

local function delay_of(value)
        return tonumber(string.match(value, '^%x+ %x+ %d+ (%d+) ')) or 0
end

local function limit_of(value)
        return tonumber(string.match(value, '^%x+ %x+ %d+ %d+ %a (%d+) ')) or 0
end

local function free()
        redis.call('DEL', lock, share, who)
        holder = { kind = 'free' }
end

local function hold_back(ms)
        redis.call('DEL', share, who)
        redis.call('SET', lock, 'delay', 'PX', ms)
        holder = { kind = 'delay' }
end

-- Nobody may join the shared holders until then; a delay that ends later stands.
local function delay_until(at)
        if at > tonumber(redis.call('ZSCORE', share, '#delay') or 0) then
                redis.call('ZADD', share, number(at), '#delay')
        end
end

-- The shared holders whose lease is over leave; if one of them asked for a lock-delay, nobody may join until it is over.
local function drop_expired()
        local latest, dropped = 0, false
        for _, uid in ipairs(redis.call('ZRANGEBYSCORE', share, '-inf', now)) do
                local ended = tonumber(redis.call('ZSCORE', share, uid))
                redis.call('ZREM', share, uid)
                dropped = true
                local value = redis.call('HGET', who, uid)
                if value then
                        redis.call('HDEL', who, uid)
                        remember(value, 'expired', ended)
                        if delay_of(value) > 0 then
                                latest = math.max(latest, ended + delay_of(value))
                        end
                end
        end
        if latest > now then
                delay_until(latest)
        end
        return dropped
end

local function settle_shared(recount)
        local blocked = redis.call('ZSCORE', share, '#delay')
        local count = redis.call('ZCARD', share)
        if blocked then
                count = count - 1
        end
        if count == 0 then
                if blocked then
                        hold_back(math.max(1, tonumber(blocked) - now))
                else
                        free()
                end
                return
        end
        local limit = holder.limit
        if recount and limit ~= 0 then
                limit = 0
                for _, value in ipairs(redis.call('HVALS', who)) do
                        limit = least(limit, limit_of(value))
                end
                redis.call('SET', lock, 'shared ' .. limit, 'PX', math.max(1, redis.call('PTTL', lock)))
        end
        holder = { kind = 'many', count = count, limit = limit, blocked = blocked }
end

-- Fills holder: kind is free, one (exclusive), many (shared), delay or foreign.
local function look()
        local value = redis.call('GET', lock)
        if not value then
                holder = { kind = 'free' }
                redis.call('DEL', share, who)
                return
        end
        local uid, delay = string.match(value, '^(%x+) %x+ %d+ (%d+) x ')
        if uid and #uid == 32 then
                local left = redis.call('PTTL', lock) - delay
                holder = { kind = left > 0 and 'one' or 'delay', uid = uid, value = value, left = left }
                return
        end
        local limit = string.match(value, '^shared (%d+)$')
        if limit then
                holder = { kind = 'many', limit = tonumber(limit) }
                settle_shared(drop_expired())
        elseif value == 'delay' then
                holder = { kind = 'delay' }
        else
                holder = { kind = 'foreign', value = value }
        end
end

local function admits(mode, limit)
        if holder.kind == 'free' then
                return true
        end
        if holder.kind ~= 'many' or mode ~= 's' or holder.blocked then
                return false
        end
        limit = least(limit, holder.limit)
        return limit == 0 or holder.count < limit
end

-- The keys of shared holders live as long as the last of them.
local function stretch(ms)
        for _, key in ipairs({ lock, share, who }) do
                if redis.call('PTTL', key) < ms then
                        redis.call('PEXPIRE', key, ms)
                end
        end
end

local function give(record, lease, token)
        local value = record .. ' ' .. token .. ' ' .. number(now)
        local uid, delay, mode, limit = string.match(record, '^(%x+) %x+ %d+ (%d+) (%a) (%d+) ')
        if mode == 'x' then
                redis.call('SET', lock, value, 'PX', lease + delay)
                holder = { kind = 'one', uid = uid, value = value, left = lease }
                return
        end
        limit = tonumber(limit)
        if holder.kind == 'free' then
                holder = { kind = 'many', count = 0, limit = limit }
                redis.call('SET', lock, 'shared ' .. limit, 'PX', lease + delay)
        elseif least(holder.limit, limit) ~= holder.limit then
                redis.call('SET', lock, 'shared ' .. limit, 'PX', math.max(1, redis.call('PTTL', lock)))
        end
        holder.limit = least(holder.limit, limit)
        holder.count = holder.count + 1
        redis.call('ZADD', share, number(now + lease), uid)
        redis.call('HSET', who, uid, value)
        stretch(lease + delay)
end

-- Hands a lock that is free, or may be shared, to those who wait for it, in their order. A waiter whose client is not
-- listening is skipped: it stands in the queue again as soon as it looks. One that has asked a moment ago gets its whole
-- lease and may use it at once; one that has waited long may be stopped, and gets just enough to confirm.
local function serve()
        while true do
                local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
                local record = first[1]
                if not record then
                        return
                end
                local uid, client, ttl, mode, limit = string.match(record, '^(%x+) (%x+) (%d+) %d+ (%a) (%d+) ')
                if not uid then
                        redis.call('ZREM', queue, record)
                elseif not admits(mode, tonumber(limit)) then
                        return
                else
                        redis.call('ZREM', queue, record)
                        ttl = tonumber(ttl)
                        local lease = ttl
                        if now - first[2] / 1000 > ttl / 6 then
                                lease = math.min(ttl, math.max(500, ttl / 10))
                        end
                        lease = math.floor(lease)
                        local news = 'pawl:news:' .. space .. client
                        if redis.call('EXISTS', 'pawl:alive:' .. space .. client) == 0 then
                                redis.call('PUBLISH', news, 'look ' .. uid) -- it lives, and its lease was lost with other data?
                        else
                                local token = next_token()
                                if redis.call('PUBLISH', news, 'granted ' .. uid .. ' ' .. token .. ' ' .. lease .. ' ' .. lock) > 0 then
                                        give(record, lease, token)
                                end
                        end
                end
        end
end

-- The value under which uid holds the lock, or nil.
local function held_by(uid)
        if holder.kind == 'one' and holder.uid == uid then
                return holder.value
        end
        if holder.kind == 'many' then
                return redis.call('HGET', who, uid) or nil
        end
end

local function token_of(value)
        return string.match(value, '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+)')
end

-- The lease of a holder begins again.
local function restart(uid, ttl, delay)
        if holder.kind == 'one' then
                redis.call('PEXPIRE', lock, ttl + delay)
                holder.left = ttl
        else -- PEXPIRE first: it is never refused, and after it nothing is, also if the server's memory is full
                redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl + delay))
                redis.call('ZADD', share, number(now + ttl), uid)
                stretch(ttl + delay)
        end
end

-- In how many ms to look whether what stands in the way is over by itself: the first in line at once when it may be, those
-- behind it a little later each. The second result is 1 if nobody will tell us when it is given back.
local function due(record)
        local rank = redis.call('ZRANK', queue, record) or 0
        local later = math.min(rank, 500) * 2
        if holder.kind == 'many' then
                local first = redis.call('ZRANGE', share, 0, 0, 'WITHSCORES')
                return math.max(1, (first[2] or now) - now) + later, 0
        end
        local left = redis.call('PTTL', lock)
        if left >= 0 then -- else it ends only by somebody's hand
                left = left + later
        end
        return left, holder.kind == 'foreign' and 1 or 0
end
