-- uses: fence, tally
-- Mark claims of a worker as running, fenced.
--
-- ARGV: time, worker, MessagePack of {id, fence, started_at} for each
-- Returns the places of those that were refused.

local worker, started, refused = ARGV[2], cmsgpack.unpack(ARGV[3]), {}
for place, said in ipairs(started) do
    local id, fence, started_at = said[1], said[2], said[3]
    local claim = own_claim(worker, id, fence)
    if claim then
        count(claim.state, claim.queue, -1)
        count('running', claim.queue, 1)
        change_claim(id, claim, { state = 'running', started_at = started_at })
    else
        refused[#refused + 1] = place
    end
end
write_tally()
return refused
