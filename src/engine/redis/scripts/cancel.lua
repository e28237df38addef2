-- cancel.lua: a claim that waits, or may have been granted meanwhile, is given up; a grant is handed on.
-- KEYS: the lock, the namespace's counter. ARGV: the record, or a uid; h if past owners are remembered.
-- Returns 1 if it stood in line, 2 if it held the lock, 0 if neither.
local lock, fence, history = KEYS[1], KEYS[2], ARGV[2] == 'h'
--include common.lua
must_tell = false

local uid = string.sub(ARGV[1], 1, 32)
local first = redis.call('ZRANGE', queue, 0, 0)[1] == ARGV[1]
local result = redis.call('ZREM', queue, ARGV[1])
look()
local held = held_by(uid)
-- Who has only a uid was told of a grant that it does not know (any more). One that outlives its handle may just have been told
-- by a reply as well, and been forgotten: it stays.
if held and (#ARGV[1] > 32 or not string.match(held, '^%x+ %x+ %d+ %d+ %a %d+ d ')) then
        result = 2
        if holder.kind == 'one' then
                free()
        else
                leave(uid)
                settle_shared(true)
        end
end
serve()
if first and holder.kind == 'foreign' then
        remind(100, true) -- the next is to look as often as this one did
end
return result
