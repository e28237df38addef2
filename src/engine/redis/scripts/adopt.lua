-- adopt.lua: takes up a lease that outlived its process.
-- KEYS: the lock, the namespace's counter. ARGV: uid; its ttl in ms; h if past owners are remembered.
-- Returns { token, ms that the lease still stands }, or 0: it does not.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[3] == 'h'
--include common.lua

look()
local held = held_by(ARGV[1])
if not held or string.match(held, '^%x+ %x+ (%d+) ') ~= ARGV[2] then
        return 0
end
local left = holder.left or (redis.call('ZSCORE', share, ARGV[1]) or now) - now
return { tonumber(token_of(held)), left }
