-- lose.lua: a holder whose lease ran out by its own clock, or who asked for a lock-delay, lets go. Losing it is a failure and
-- not a release: the lock-delay begins.
-- KEYS: the lock, the namespace's counter. ARGV: uid; the lock-delay in ms; 1 if it was lost, 0 if it is released; h if past owners
-- are remembered. Returns 1; or 0: it was not (or no longer) held by uid.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[4] == 'h'
--include common.lua
must_tell = false

look()
local uid, delay, lost = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local held = held_by(uid)
if not held then
        return 0
end
remember(held, lost and 'expired' or 'released')
if holder.kind == 'one' then
        if lost and delay > 0 then
                hold_back(delay)
        else
                free()
        end
else
        leave(uid)
        if lost and delay > 0 then
                delay_until(now + delay)
                stretch(delay)
        end
        settle_shared(true)
end
serve()
return 1
