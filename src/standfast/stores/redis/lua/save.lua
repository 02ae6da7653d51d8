-- uses: fence, remembering
-- Write memos of claims of a worker down, fenced.
--
-- ARGV: time, worker, MessagePack of {id, fence, names, lengths} for each save, what is stored of the memos, one after
--   the other
-- Returns the places of the saves that were refused.

local worker, saves, texts = ARGV[2], cmsgpack.unpack(ARGV[3]), ARGV[4]
local from, refused = 1, {}
for place, said in ipairs(saves) do
    local id, fence, names, lengths = unpack(said, 1, 4)
    local is_own = own_claim(worker, id, fence)
    if not is_own then
        refused[#refused + 1] = place
    end
    for index, name in ipairs(names) do
        local last = from + lengths[index] - 1
        if is_own then
            write_memo(id, name, string.sub(texts, from, last))
        end
        from = last + 1
    end
end
return refused
