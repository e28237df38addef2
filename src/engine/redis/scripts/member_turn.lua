-- member_turn.lua: a lock was freed by force: the next one in its queue gets its turn.
-- KEYS: the lock, the namespace's marker, the lock's queue. ARGV: where clients listen, and the lock's name.
-- Returns 1.
--include give_turn.lua
if redis.call('EXISTS', KEYS[1]) == 0 then
        give_turn(ARGV[1], ARGV[2], true)
end
return 1
