-- uses: ending
-- Part: to cancel a job, because somebody asks for that or because a new one takes its key.

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

-- Give a new job, which waits nowhere yet, the key of the one that has it. A waiting one ends; a claimed one, or
-- the one for which that waits, is waited for. Tell whether a job has ended.
local function replace(id)
    local job = find_job(id)
    local holder = key_holder(job.task, job.key)
    local after = holder.claim and holder.id or holder.after
    if not holder.claim then
        leave(holder)
        end_job(holder, 'cancelled', 'replaced')
    end
    give_key(job, id)
    if after then
        call('HSET', prefix .. 'followers', after, id)
        write_life(job, { s = 'blocked', y = 'replacing', n = after })
        job.state, job.reason = 'blocked', 'replacing'
    end
    enter(job)
    return not holder.claim
end
