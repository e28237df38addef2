-- released.lua: was this lock released, by a request whose reply was lost?
-- KEYS: the lock, the namespace's history. ARGV: uid. Returns 1 if the history says so, 0 if not.
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], -1000, -1)) do
        local how, lock, uid = string.match(entry, '^(%a+) %+?%d+\n([^\n]*)\n(%x+) ')
        if how == 'released' and lock == KEYS[1] and uid == ARGV[1] then
                return 1
        end
end
return 0
