-- uses: ending
-- Part: jobs that take the key of another one.

-- The job that has a key now, if any, with the state that people see.
local function taken_by(task, key)
    local holder = key_holder(task, key)
    if holder then
        holder.shown_state = shown_state(holder)
    end
    return holder
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
