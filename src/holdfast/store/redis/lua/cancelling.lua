-- uses: ending
-- Part: to cancel a job.

-- Return what became of the wish to cancel a job, or nothing without such a job.
local function cancel_job(id)
    local job = find_job(id)
    if not job then
        return false
    end
    if job.claim then
        change_claim(job.id, job.claim, { cancel = true })
        return 'requested'
    elseif job.state ~= 'scheduled' and job.state ~= 'blocked' then
        return 'too_late'
    end
    local after = job.after
    if after then
        call('HDEL', prefix .. 'followers', after)
    end
    leave(job)
    end_job(job, 'cancelled', 'requested')
    if after then
        give_key(job, after) -- while it waited so, the other one was claimed: it may be tried again
    end
    return 'cancelled'
end
