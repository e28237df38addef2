-- fence.lua: tokens and marks. Included by the scripts, and the first part of the library of functions.
--
-- KEYS of each: the guarded key, its mark, the floor of its namespace; they are pawl:mark:KEY and pawl:floor:PREFIX, where KEY
-- begins with PREFIX. ARGV begins with the token.
--
-- Tokens are decimal text and are never made numbers: those are exact to 2^53 only.

local GREATEST = '9223372036854775807'

-- Digits sort alike in every locale.
local function is_older(token, other)
        return #token < #other or (#token == #other and token < other)
end

local function is_token(text)
        return type(text) == 'string' and #text <= #GREATEST and string.find(text, '^[1-9]%d*$') ~= nil and
                       not is_older(GREATEST, text)
end

-- What a mark or a floor says, or false; or nil and the error to answer with.
local function read_token(key)
        local text = redis.pcall('GET', key)
        if type(text) == 'table' and text.err then
                if string.find(text.err, 'WRONGTYPE', 1, true) then
                        return nil, redis.error_reply('CORRUPT ' .. key .. ' is not a token: it is no string')
                end
                return nil, text
        end
        if text and not is_token(text) then
                return nil, redis.error_reply('CORRUPT ' .. key .. ' is not a token')
        end
        return text
end

-- A mistaken mark would guard nothing.
local function check_keys(keys)
        if #keys < 3 then
                return redis.error_reply('INVALID there must be three keys: KEY pawl:mark:KEY pawl:floor:PREFIX')
        end
        if keys[2] ~= 'pawl:mark:' .. keys[1] then
                return redis.error_reply('INVALID the second key must be pawl:mark:KEY')
        end
        if string.sub(keys[3], 1, 11) ~= 'pawl:floor:' or
                string.sub(keys[1], 1, #keys[3] - 11) ~= string.sub(keys[3], 12) then
                return redis.error_reply('INVALID the third key must be pawl:floor:PREFIX, and KEY must begin with PREFIX')
        end
end

local function check(keys, token)
        local wrong = check_keys(keys)
        if wrong then
                return wrong
        end
        if not is_token(token) then
                return redis.error_reply('INVALID the token must be a number > 0 and < 2^63')
        end
end

local function stale(greatest)
        return redis.error_reply('STALE greatest is ' .. greatest)
end

-- What the version of a resource is: its mark, the floor where there is none, "0" without either; or nil and the error.
local function read_version(keys)
        local wrong = check_keys(keys)
        if wrong then
                return nil, wrong
        end
        for i = 2, 3 do
                local text, damaged = read_token(keys[i])
                if damaged then
                        return nil, damaged
                end
                if text then
                        return text
                end
        end
        return '0'
end

-- One more, in decimal text.
local function next_version(text)
        local head, digit, nines = string.match(text, '^(%d-)([0-8])(9*)$')
        if not digit then
                return '1' .. string.rep('0', #text)
        end
        return head .. tostring(tonumber(digit) + 1) .. string.rep('0', #nines)
end

-- The greatest token until now, false if none; or nil and the error. Changes nothing.
local function look(keys, token)
        local wrong = check(keys, token)
        if wrong then
                return nil, wrong
        end
        local mark, damaged = read_token(keys[2])
        if damaged then
                return nil, damaged
        end
        if mark then
                if is_older(token, mark) then
                        return nil, stale(mark)
                end
                return mark
        end
        local floor, damaged_floor = read_token(keys[3])
        if damaged_floor then
                return nil, damaged_floor
        end
        if floor and is_older(token, floor) then
                return nil, stale(floor)
        end
        return false
end

-- The same, and raises the mark. An equal one is written too: a server that may not write (a replica, one without memory, one
-- that cannot save) must not admit.
local function admit(keys, token)
        local before, refused = look(keys, token)
        if refused then
                return nil, refused
        end
        local written = redis.pcall('SET', keys[2], token)
        if written.err then
                return nil, written
        end
        return before
end

-- The id of the swap that made a version goes with its mark. A user that may do no swaps may not see it, and need not.
local function forget_swap(mark)
        redis.pcall('DEL', 'pawl:swap:' .. string.sub(mark, 11))
end

-- A fourth key is the sender's line, see line.lua; the last argument is its word and the number of this request. What was sent
-- before the line was taken anew comes too late, and is refused.
local function is_late(keys, args)
        if not keys[4] then
                return false
        end
        local request = table.remove(args)
        local line = redis.call('GET', keys[4])
        return not line or string.sub(line, 1, 16) ~= string.sub(request, 1, 16), request
end

-- Who loses the reply finds out that it was done.
local function leave_word(keys, request)
        if request then
                redis.call('SET', keys[4], request, 'PX', '600000')
        end
end
