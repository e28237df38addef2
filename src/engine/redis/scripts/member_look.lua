-- member_look.lua: what is known of this server as one of a quorum, and since when it cannot be trusted.
-- KEYS: the namespace's marker. ARGV: d if every write is on disk before it is confirmed, n if not, ? if nobody may know.
-- Returns { run, 1 if it is trusted, floor, longest ms, flag, us since it is known not to be, TIME in us, the marker }.
--
-- The marker is "RUN FLOOR LONGEST FLAG" while the data are whole since the run began. A server that was restarted has
-- that of another run, one that was emptied has none: then the first who looks leaves "?RUN FLOOR LONGEST FLAG SINCE"
-- behind, so that everybody waits from the same moment on. What was marked under d and is d now has lost nothing.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
local value = redis.call('GET', KEYS[1]) or ''
local mark, floor, longest, flag, since = string.match(value, '^(%??%x+) (%d+) (%d+) ([dn]) ?(%d*)$')
if not mark then
        mark, floor, longest, flag = '', 0, 0, 'n'
end
local function write(who, after)
        value = who .. string.format(' %016.0f %012.0f ', floor, longest) .. flag .. after
        redis.call('SET', KEYS[1], value)
end
if mark ~= run and flag == 'd' and ARGV[1] == 'd' and tonumber(floor) > 0 then
        mark = run
        write(run, '')
elseif mark ~= run and mark ~= '?' .. run then
        since = now
        write('?' .. run, ' ' .. since)
elseif mark == run and flag == 'd' and ARGV[1] == 'n' then -- it is not kept so any more
        flag = 'n'
        write(run, '')
end
local trusted = mark == run
local untrusted = trusted and 0 or math.max(0, now - since)
return { run, trusted and 1 or 0, tonumber(floor), tonumber(longest), flag, untrusted, tonumber(now), value }
