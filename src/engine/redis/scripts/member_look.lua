-- member_look.lua: what is known of this server as one of a quorum, and since when it cannot be trusted.
-- KEYS: the namespace's marker, its roster. ARGV: d if every write is on disk before it is confirmed, n if not, ? if
-- nobody may know; an id, 16 hex digits, for a server that needs a new one. Returns { run, 1 if it is trusted, floor,
-- longest ms, flag, us since it is known not to be, TIME in us, the marker, the roster, its id }.
--
-- The marker is "RUN FLOOR LONGEST FLAG TAG" while the data are whole since the run began. A server that was restarted
-- has that of another run, one that was emptied has none: then the first client that looks leaves "?RUN FLOOR LONGEST
-- FLAG SINCE ID" behind, so that everybody waits from the same moment on. What was marked under d and is d now has lost
-- nothing. The ID is new each time: nobody can know whether the server that had the former one is still up somewhere, as
-- one of two copies. The roster is "ID SET ENTRY...": its own id, and which servers have a vote. TAG is a digest of it
-- without the own id.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local time = redis.call('TIME')
local now = time[1] .. string.format('%06d', time[2])
local value = redis.call('GET', KEYS[1]) or ''
local roster = redis.call('GET', KEYS[2]) or ''
local mark, floor, longest, flag, after, id = string.match(value, '^(%??%x+) (%d+) (%d+) ([dn]) ?(%x*) ?(%x*)$')
if not mark then
        mark, floor, longest, flag, after, id = '', 0, 0, 'n', '', ''
end
local since = after
local function write(who, behind)
        value = who .. string.format(' %016.0f %012.0f ', floor, longest) .. flag .. behind
        redis.call('SET', KEYS[1], value)
end
local voter = string.sub(mark, 1, 1) ~= '?' and #after == 16 and roster ~= ''
if mark ~= run and voter and flag == 'd' and ARGV[1] == 'd' and tonumber(floor) > 0 then
        mark = run
        write(run, ' ' .. after)
elseif not (mark == run and voter) and not (mark == '?' .. run and #id == 16) then
        mark, since, id = '?' .. run, now, ARGV[2]
        write(mark, ' ' .. since .. ' ' .. id)
elseif mark ~= run and (tonumber(since) or 0) > tonumber(now) then -- its clock was set back: it is not waited for
        since = now
        write(mark, ' ' .. since .. ' ' .. id)
elseif mark == run and flag == 'd' and ARGV[1] == 'n' then -- it is not kept so any more
        flag = 'n'
        write(run, ' ' .. after)
end
-- A server that lets us read but not write would be asked for votes for ever. One whose memory is full is not meant: it can
-- still renew and release.
local written = redis.pcall('SET', KEYS[1], value)
local refused = type(written) == 'table' and written.err or ''
if string.find(refused, '^READONLY') or string.find(refused, '^NOREPLICAS') then
        return written
end
local trusted = mark == run
if trusted then
        id = string.sub(roster, 1, 16)
end
local untrusted = trusted and 0 or math.max(0, now - since)
return { run, trusted and 1 or 0, tonumber(floor), tonumber(longest), flag, untrusted, tonumber(now), value, roster, id }
