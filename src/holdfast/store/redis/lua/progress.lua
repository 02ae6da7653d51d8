-- uses: claims, bell
-- Record the progress of claims of a worker, fenced.
--
-- ARGV: time, worker, MessagePack of {id, fence, length} for each, what is stored of each, one after the other
-- Returns the places of those that were refused.

local reports, from, refused = cmsgpack.unpack(ARGV[3]), 1, {}
for place, said in ipairs(reports) do
    local claim = claim_of(said[1])
    if claim and claim.worker == ARGV[2] and claim.fence == said[2] then
        change_claim(said[1], claim, { progress = string.sub(ARGV[4], from, from + said[3] - 1) })
    else
        refused[#refused + 1] = place
    end
    from = from + said[3]
end
if #refused < #reports then
    ring('result')
end
return refused
