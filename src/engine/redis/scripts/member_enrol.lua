-- member_enrol.lua: writes the roster: which servers have a vote.
-- KEYS: the namespace's marker, its roster. ARGV: the roster as it was seen; the new one, with this server's own id in
-- front; its tag; run. Returns 1; or 0: it is not as it was seen, and nothing is changed.
--
-- A voter whose id is in its roster goes on under the new tag: from then on requests that carry the former one are
-- refused. A server that was not in its roster begins anew: it has no vote, and its quarantine begins now.
local value = redis.call('GET', KEYS[1]) or ''
local roster = redis.call('GET', KEYS[2]) or ''
if roster ~= ARGV[1] or string.sub(string.gsub(value, '^%?', ''), 1, 40) ~= ARGV[4] then
        return 0
end
redis.call('SET', KEYS[2], ARGV[2])
local id = string.sub(ARGV[2], 1, 16)
local known = string.sub(roster, 1, 16) == id and string.find(roster, '-' .. id .. '-', 1, true)
if known and string.sub(value, 1, 1) ~= '?' then
        redis.call('SET', KEYS[1], string.sub(value, 1, 73) .. ARGV[3])
elseif not known then
        local floor, longest, flag = string.match(value, '^%??%x+ (%d+) (%d+) ([dn])')
        local time = redis.call('TIME')
        local since = time[1] .. string.format('%06d', time[2])
        redis.call('SET', KEYS[1], table.concat({ '?' .. ARGV[4], floor, longest, flag, since, id }, ' '))
end
return 1
