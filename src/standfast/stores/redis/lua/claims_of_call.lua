-- uses: claims
-- The claims that a call gave, for who could not read them all.
--
-- ARGV: time, worker, number of the call
-- Returns id, fence and queue of each.

local worker, number, found = ARGV[2], tonumber(ARGV[3]), {}
for _, id in ipairs(call('SMEMBERS', prefix .. 'held:' .. worker)) do
    local claim = claim_of(id)
    if claim and claim.call == number then
        found[#found + 1] = { id, claim.fence, claim.queue }
    end
end
return found
