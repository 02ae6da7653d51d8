-- uses: claims
-- Part: the fence. Every write of a claim asks for it so; finish.lua does for many at once.

-- The claim of a job, if it is this worker's with this fence.
local function own_claim(worker, id, fence)
    local claim = claim_of(id)
    return claim and claim.worker == worker and claim.fence == fence and claim or nil
end
