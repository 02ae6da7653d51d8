-- uses: claims, tally
-- Mark claims of a worker as running, fenced.
--
-- ARGV: time, worker, MessagePack of {id, fence, started_at} for each
-- Returns the places of those that were refused.

local started, refused = cmsgpack.unpack(ARGV[3]), {}
for place, said in ipairs(started) do
    local claim = claim_of(said[1])
    if claim and claim.worker == ARGV[2] and claim.fence == said[2] then
        count(claim.state, claim.queue, -1)
        count('running', claim.queue, 1)
        change_claim(said[1], claim, { state = 'running', started_at = said[3] })
    else
        refused[#refused + 1] = place
    end
end
write_tally()
return refused
