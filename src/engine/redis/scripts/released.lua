-- released.lua: was this lock released, by a request whose reply was lost?
-- KEYS: the lock, the namespace's history. ARGV: uid. Returns 1 if the history says so, 0 if not.
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[2], '+', '-')) do
        if entry[2][1] == 'released' and string.sub(entry[2][2], #KEYS[1] + 2, #KEYS[1] + 33) == ARGV[1] then
                return 1
        end
end
return 0
