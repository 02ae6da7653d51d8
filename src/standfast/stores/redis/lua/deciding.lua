-- uses: cancelling
-- Part: what people decide about a job. Each returns nothing without such a job; else its state as it was.

-- Make a dead job ready, or a scheduled one due now. Returns also the job that has its key, where that is why not.
local function requeue_job(id)
    local job = find_job(id)
    if not job then
        return nil
    end
    local state = shown_state(job)
    if state == 'dead' then
        local holder = job.key and key_holder(job.task, job.key)
        if holder then
            return 'taken', { 'taken', job.task, job.key, holder.id, shown_state(holder) }
        end
        call('ZREM', prefix .. 'dead', job.id)
        count('dead', job.queue, -1)
        if job.key then
            give_key(job, job.id)
        end
        job.attempt, job.crashes, job.error, job.cancel = 0, 0, nil, false
    elseif state == 'scheduled' then
        leave(job)
    else
        return state
    end
    let_wait(job, 'scheduled', nil, now)
    return state
end

-- End a dead job.
local function discard_job(id)
    local job = find_job(id)
    if not job or job.state ~= 'dead' then
        return job and shown_state(job)
    end
    call('ZREM', prefix .. 'dead', job.id)
    count('dead', job.queue, -1)
    end_job(job, 'cancelled', 'discarded')
    return 'dead'
end

-- Let a job that waits for its time be due at another. The state is empty where that was done.
local function reschedule_job(id, run_at)
    local job = find_job(id)
    if not job then
        return nil
    end
    if job.state ~= 'scheduled' or is_suspended(job) then
        return shown_state(job)
    end
    leave(job)
    let_wait(job, 'scheduled', job.reason, run_at)
    return ''
end
