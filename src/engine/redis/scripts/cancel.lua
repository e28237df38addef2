-- cancel.lua: a claim that waits, or may have been granted meanwhile, is given up; a grant is handed on.
-- KEYS: the lock, its queue, the namespace's counter and history. ARGV: the record; the namespace; how many past owners are
-- kept. Returns 1 if it stood in line, 2 if it held the lock, 0 if neither.
local lock, queue, fence, past, space, keep = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2], ARGV[3]
--include common.lua

local uid = string.sub(ARGV[1], 1, 32)
local result = redis.call('ZREM', queue, ARGV[1])
look()
if held_by(uid) then
        result = 2
        if holder.kind == 'one' then
                free()
        else
                redis.call('ZREM', share, uid)
                redis.call('HDEL', who, uid)
                settle_shared(true)
        end
end
serve()
return result
