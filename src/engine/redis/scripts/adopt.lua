-- adopt.lua: takes up a lease that outlived its process.
-- KEYS: the lock, its queue, the namespace's counter and history. ARGV: uid; its ttl in ms; the namespace; how many past
-- owners are kept.
-- Returns { token, ms that the lease still stands }, or 0: it does not.
local lock, queue, fence, past, space, keep = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[3], ARGV[4]
--include common.lua

look()
local held = held_by(ARGV[1])
if not held or string.match(held, '^%x+ %x+ (%d+) ') ~= ARGV[2] then
        return 0
end
local left = holder.left or (redis.call('ZSCORE', share, ARGV[1]) or now) - now
return { token_of(held), left }
