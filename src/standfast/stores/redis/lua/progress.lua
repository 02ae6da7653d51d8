-- uses: fence, bell
-- Record the progress of claims of a worker, fenced.
--
-- ARGV: time, worker, MessagePack of {id, fence, length} for each, what is stored of each, one after the other
-- Returns the places of those that were refused.

local worker, reports, texts = ARGV[2], cmsgpack.unpack(ARGV[3]), ARGV[4]
local from, refused = 1, {}
for place, said in ipairs(reports) do
    local id, fence, length = said[1], said[2], said[3]
    local claim = own_claim(worker, id, fence)
    if claim then
        change_claim(id, claim, { progress = string.sub(texts, from, from + length - 1) })
    else
        refused[#refused + 1] = place
    end
    from = from + length
end
if #refused < #reports then
    ring('result')
end
return refused
