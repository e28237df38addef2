-- common.lua: what stands in the way of a lock, and handing it on. Included by the scripts that need it, after their own
-- short way: a script runs from its first line each time, and even defining functions costs.
--
-- Expects: lock and fence (keys), history (true if past owners are remembered).
--
-- A lock's value is  UID CLIENT TTL DELAY MODE LIMIT FLAGS AGE OWNER NOTE TOKEN [SINCE [~LATE]]  for an exclusive holder,
-- "shared LIMIT [~LATE]" for shared ones (who they are stands in share and who, and in limit if they have one), "delay" in a
-- lock-delay; anything else was written by a client that is not ours. A waiter's record is the same without TOKEN and SINCE; SINCE
-- (ms) is left out where it is the token's own time. OWNER is TAKER<MAKER where a lease was taken up (take_up.lua). LATE (ms): some
-- waiters know of an earlier holder only, and re-check by then: see bound.

local QUEUE_LEASE = 60000 -- a queue that nobody looks after vanishes; its clients look at least three times as often
local RECHECK = 21000 -- every waiter re-checks at least that often: LOOK_MOST of redis_wait.c, and what due() adds
local TOO_LATE = 9007199254740991 -- us, in the year 2255: numbers in Lua are exact up to there
local space = string.sub(fence, #'pawl:fence:' + 1)
local queue, share, who = 'pawl:queue:' .. lock, 'pawl:share:' .. lock, 'pawl:who:' .. lock
local limits = 'pawl:limit:' .. lock -- the limits of shared holders, by uid: the least counts
local past = 'pawl:past:' .. space
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = {}

-- A waiter re-checks when the lease of the holder that it knows of is over. Whoever follows with a shorter one, and dies, would
-- leave those behind waiting for the time of its predecessor: so they are told. bound: in so many ms all of them re-check anyway.
-- soonest: in so many ms they should, because of what this script did; nil: nothing.
local bound, soonest = RECHECK, nil

local function number(n)
        return string.format('%.0f', n)
end

-- Greater than every one before: also if the counter was lost, as long as the clock was not set back as well.
-- A clock that is centuries ahead is not followed: the counter would be beyond repair when it is set right.
local function last_token()
        local last = tonumber(redis.call('GET', fence) or 0)
        if not last or last >= TOO_LATE then
                error('CORRUPT the counter ' .. fence .. ' is not a number below 2^53')
        end
        return last
end

local function next_token()
        local token = time[1] * 1000000 + time[2]
        local last = last_token()
        if token >= TOO_LATE and last == 0 then
                error('BADCLOCK there is no counter ' .. fence .. ' yet, and the clock is past the year 2255')
        end
        if last >= token or token >= TOO_LATE then
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
                if type(length) == 'number' and length > 1100 then
--include archive.lua
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

local function free()
        redis.call('DEL', lock, share, who, limits)
        holder = { kind = 'free' }
end

-- Something ends in so many ms that waiters may not know of.
local function ends_in(ms)
        if ms < bound then
                soonest = math.min(soonest or ms, ms)
        end
end

local function hold_back(ms)
        redis.call('DEL', share, who, limits)
        redis.call('SET', lock, 'delay', 'PX', ms)
        holder = { kind = 'delay' }
        ends_in(ms)
end

-- Nobody may join the shared holders until then; a delay that ends later stands.
local function delay_until(at)
        if at > tonumber(redis.call('ZSCORE', share, '#delay') or 0) then
                redis.call('ZADD', share, number(at), '#delay')
                ends_in(at - now)
        end
end

-- What the exclusive holder's waiters know at most: his lease, or one before it.
local function bound_of(value)
        local ttl, delay = string.match(value, '^%x+ %x+ (%d+) (%d+) ')
        local late = string.match(value, ' ~(%d+)$')
        return math.min(RECHECK, math.max((ttl or RECHECK) + (delay or 0), (late or now) - now))
end

-- One of the shared holders leaves.
local function leave(uid)
        redis.call('ZREM', share, uid)
        redis.call('HDEL', who, uid)
        if holder.limit ~= 0 then
                redis.call('ZREM', limits, uid)
        end
end

local function write_shared(ms)
        local late = holder.late and holder.late > now and ' ~' .. number(holder.late) or ''
        redis.call('SET', lock, 'shared ' .. holder.limit .. late, 'PX', ms)
end

-- The shared holders whose lease is over leave; if one of them asked for a lock-delay, nobody may join until it is over.
local function drop_expired()
        local latest, dropped = 0, false
        for _, uid in ipairs(redis.call('ZRANGEBYSCORE', share, '-inf', now)) do
                local ended = tonumber(redis.call('ZSCORE', share, uid))
                local value = redis.call('HGET', who, uid)
                leave(uid)
                dropped = true
                if value then
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
        holder = { kind = 'many', count = count, limit = holder.limit, blocked = blocked, late = holder.late }
        if recount and holder.limit ~= 0 then
                local limit = tonumber(redis.call('ZRANGE', limits, 0, 0, 'WITHSCORES')[2] or 0)
                if redis.call('ZCARD', limits) < count then -- some have none, or came with an older client: all are asked
                        limit = 0
                        for _, value in ipairs(redis.call('HVALS', who)) do
                                limit = least(limit, tonumber(string.match(value, '^%x+ %x+ %d+ %d+ %a (%d+) ')) or 0)
                        end
                end
                if limit ~= holder.limit then
                        holder.limit = limit
                        write_shared(math.max(1, redis.call('PTTL', lock)))
                end
        end
end

-- Fills holder: kind is free, one (exclusive), many (shared), delay or foreign.
local function look()
        local value = redis.call('GET', lock)
        if not value then
                holder = { kind = 'free' }
                redis.call('DEL', share, who, limits)
                return
        end
        local uid, ttl, delay = string.match(value, '^(%x+) %x+ (%d+) (%d+) x ')
        if uid and #uid == 32 then
                local lives = redis.call('PTTL', lock)
                local left = lives < 0 and tonumber(ttl) or lives - delay -- without an end: somebody has made it so by hand
                holder = { kind = left > 0 and 'one' or 'delay', uid = uid, value = value, left = left }
                bound = bound_of(value)
                return
        end
        local limit, late = string.match(value, '^shared (%d+) ?~?(%d*)$')
        if limit then
                holder = { kind = 'many', limit = tonumber(limit), late = tonumber(late) }
                bound = math.min(RECHECK, math.max(redis.call('PTTL', lock), (holder.late or now) - now))
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
        for _, key in ipairs({ lock, share, who, holder.limit ~= 0 and limits or nil }) do
                if redis.call('PTTL', key) < ms then
                        redis.call('PEXPIRE', key, ms)
                end
        end
end

local function give_shared(uid, value, limit, lease, delay)
        if holder.kind == 'free' then
                holder = { kind = 'many', count = 0, limit = limit, late = lease < bound and now + bound or nil }
                write_shared(lease + delay)
        elseif least(holder.limit, limit) ~= holder.limit then
                holder.limit = limit
                write_shared(math.max(1, redis.call('PTTL', lock)))
        end
        holder.count = holder.count + 1
        redis.call('ZADD', share, number(now + lease), uid)
        redis.call('HSET', who, uid, value)
        if limit ~= 0 then
                redis.call('ZADD', limits, limit, uid)
        end
        stretch(lease + delay)
        ends_in(lease)
end

local function give(record, lease, token)
        local value = record .. ' ' .. token .. ' ' .. number(now)
        local uid, delay, mode, limit = string.match(record, '^(%x+) %x+ %d+ (%d+) (%a) (%d+) ')
        if mode ~= 'x' then
                give_shared(uid, value, tonumber(limit), lease, delay)
                return
        end
        if lease + delay < bound then
                value = value .. ' ~' .. number(now + bound)
        end
        redis.call('SET', lock, value, 'PX', lease + delay)
        holder = { kind = 'one', uid = uid, value = value, left = lease }
        ends_in(lease + delay)
end

-- Tells a client something. Returns whether it listens, at this server: PUBLISH counts also those that listen to patterns, such as
-- a monitor. And only here: a replica would pass the grant on to a waiter that listens there, when it has gone to another.
-- nil and the refusal for a user who may not publish: a caller that must do without undoes nothing by that, any other one raises it
-- when all is as it was.
local patterns, must_tell = nil, true
local function tell(client, text)
        local news = 'pawl:news:' .. space .. client
        patterns = patterns or redis.pcall('PUBSUB', 'NUMPAT')
        if patterns ~= 0 then
                local listens = redis.pcall('PUBSUB', 'NUMSUB', news)
                if not listens.err and tonumber(listens[2]) == 0 then
                        return false
                end
        end
        redis.set_repl(redis.REPL_NONE)
        local heard = redis.pcall('PUBLISH', news, text)
        redis.set_repl(redis.REPL_ALL)
        if type(heard) == 'number' then
                return heard > 0
        end
        return nil, heard.err
end

local function raise_if_needed(refused)
        if must_tell then
                error(refused)
        end
end

-- Waiters are to re-check in so many ms: the first in line; unless it is enough that the first does, also some behind it, at
-- doubling distances, and the last: if those before them are stopped, one of them comes by. One that does not listen is skipped,
-- as in serve().
local function remind(ms, first_only)
        local rank, told = 0, {}
        local count = redis.call('ZCARD', queue)
        while count > 0 do
                local at = math.min(rank, count - 1)
                local record = redis.call('ZRANGE', queue, at, at)[1]
                local uid, client = string.match(record, '^(%x+) (%x+) ')
                local heard, refused = false, nil
                if uid and told[client] then
                        heard = true
                elseif uid then
                        heard, refused = tell(client, 'due ' .. uid .. ' ' .. number(ms + math.min(at, 500) * 2))
                end
                if heard == nil then
                        return raise_if_needed(refused)
                elseif heard then
                        told[client] = true
                        if first_only or at == count - 1 then
                                return
                        end
                        rank = 2 * rank + 1
                else
                        redis.call('ZREM', queue, record)
                        count = count - 1
                end
        end
end

-- Hands a lock that is free, or may be shared, to the first who waits for it, if that may have it: true if so, or if it was
-- skipped. A waiter whose client is not listening is skipped: it stands in the queue again as soon as it looks. One that has asked
-- a moment ago gets its whole lease and may use it at once; one that has waited long may be stopped, and gets just enough to confirm.
local function serve_one()
        local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
        local record = first[1]
        if not record then
                return false
        end
        local uid, client, ttl, mode, limit = string.match(record, '^(%x+) (%x+) (%d+) %d+ (%a) (%d+) ')
        if uid and not admits(mode, tonumber(limit)) then
                return false
        end
        redis.call('ZREM', queue, record)
        if not uid then
                return true
        end
        ttl = tonumber(ttl)
        local lease = ttl
        if now - first[2] / 1000 > ttl / 6 then
                lease = math.min(ttl, math.max(500, ttl / 10))
        end
        lease = math.floor(lease)
        if redis.call('EXISTS', 'pawl:alive:' .. space .. client) == 0 then
                tell(client, 'look ' .. uid) -- it lives, and its lease was lost with other data?
                return true
        end
        local token = next_token()
        local heard, refused = tell(client, 'granted ' .. uid .. ' ' .. token .. ' ' .. lease .. ' ' .. lock)
        if heard then
                give(record, lease, token)
        elseif heard == nil then -- it finds out when it re-checks, and keeps its place until then
                redis.call('ZADD', queue, first[2], record)
                redis.call('PEXPIRE', queue, QUEUE_LEASE)
                raise_if_needed(refused)
                return false
        end
        return true
end

-- To all who may have it, in their order.
local function serve()
        while serve_one() do
        end
        if soonest then
                remind(soonest)
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
-- behind it a little later each. The second result is 0, or, if nobody will tell us when it is given back, its place in the line.
local function due(record)
        local rank = redis.call('ZRANK', queue, record) or 0
        local later = math.min(rank, 500) * 2
        if holder.kind == 'many' then
                local first = redis.call('ZRANGE', share, 0, 0, 'WITHSCORES')
                return math.max(1, (first[2] or now) - now) + later, 0
        end
        local left = redis.call('PTTL', lock)
        left = left < 0 and RECHECK or left + later -- without an end: it ends only by somebody's hand
        return left, holder.kind == 'foreign' and 1 + math.min(rank, 500) or 0
end
