-- list.lua: what marks say.
-- KEYS: marks. Returns for each its text, nil if it is not there, "?" if it is no string.

local function pawl_list(keys)
        local texts = {}
        for i, key in ipairs(keys) do
                local text = redis.pcall('GET', key)
                if type(text) == 'table' then
                        if not string.find(text.err, 'WRONGTYPE', 1, true) then
                                return text
                        end
                        text = '?'
                end
                texts[i] = text
        end
        return texts
end
