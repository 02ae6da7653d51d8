-- uses: reading, recording
-- ARGV: time, kind, MessagePack of names (nothing: all). Returns the records: name, what is stored of it, one after
-- the other.

local names = cmsgpack.unpack(ARGV[3])
if not names then
    return call('HGETALL', records_key(ARGV[2]))
end
local found = {}
for place, text in ipairs(each_of('HMGET', records_key(ARGV[2]), names)) do
    if text then
        found[#found + 1], found[#found + 2] = names[place], text
    end
end
return found
