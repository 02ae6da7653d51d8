-- uses: ending, bell
-- Release claims of closed calls that their worker does not name.
--
-- ARGV: time, worker, closed_call, MessagePack of the fences of the jobs that it names by id
-- Returns the claims: id, fence, one after the other.

local worker, closed_call, named = ARGV[2], tonumber(ARGV[3]), cmsgpack.unpack(ARGV[4])
local released = {}
for _, id in ipairs(call('SMEMBERS', prefix .. 'held:' .. worker)) do
    local claim, job = claim_of(id), find_job(id)
    if claim and job and claim.call <= closed_call and named[id] ~= claim.fence then
        local move = settled(job, 'release')
        local error = move == 'die' and STARTED_ITS_LAST or nil
        job.attempt = job.attempt + (MOVES[move].charges and 1 or 0)
        close_claim(job, move, 'reconcile', { error = error })
        if move == 'die' then
            job.error = error
            end_job(job, 'dead')
        elseif move == 'cancel' then
            give_up(job)
        else
            let_wait(job, 'scheduled')
        end
        released[#released + 1], released[#released + 2] = id, claim.fence
    end
end
write_tally()
if #released > 0 then
    ring('work')
    ring('result')
end
return released
