-- uses: keys, folding
-- Part: how a job ends, and how a claim leaves its worker's hands, whoever ends it.

-- Make a job final that is in no lane and in nobody's hands. `result` and `until_at` are for those who have one.
local function end_job(job, state, reason, ending)
    local changes = life_numbers(job)
    changes.s, changes.y, changes.z, changes.n = state, reason or false, micros(now), false
    changes.w, changes.p = job.worker or false, job.progress or false
    if ending then
        changes.v, changes.u = ending.result or false, ending.until_at and micros(ending.until_at) or false
        if ending.result and ending.until_at then
            call('ZADD', prefix .. 'fading', ending.until_at, job.id)
        end
    end
    write_life(job, changes)
    job.state, job.reason, job.finished_at, job.claim, job.after = state, reason, now, nil, nil
    count(state, job.queue, 1)
    if state == 'dead' then
        call('ZADD', prefix .. 'dead', 0, job.id)
    elseif keeps_key(job) then
        call('ZADD', prefix .. 'kept', now + job.keep_key, job.id)
    else
        call('ZADD', prefix .. 'ended', now, job.id)
    end
    leave_key(job)
    return free_follower(job)
end

-- Write the end of the present claim into the history and take it from its worker.
local function close_claim(job, how, by, story)
    local started_at = story.started_at or job.claim.started_at
    local entry = cmsgpack.pack(job.worker, started_at, now, how, story.error, story.traceback, story.log, by)
    call('HDEL', prefix .. 'claims', job.id)
    call('SREM', prefix .. 'held:' .. job.worker, job.id)
    write_life(job, { ['h' .. job.fence] = entry })
    if job.fence > FIRST + LAST and job.fence % BATCH == 0 then
        local folded = folded_of(job.id)
        local fields = count_up_to(job.id, folded, job.fence - LAST)
        call('HSET', prefix .. 'life:' .. job.id, 'k', cmsgpack.pack(unpack(folded)))
        in_bites('HDEL', prefix .. 'life:' .. job.id, fields)
    end
    job.has_life = true
    count(job.claim.state, job.queue, -1)
end

local function is_replaced(job)
    return job.key and call('HEXISTS', prefix .. 'followers', job.id) == 1
end

local function settled(job, move)
    local unwanted = (job.cancel or is_replaced(job)) and 2 or 1
    local last_chance = job.max_attempts == 1 and job.state == 'running' and 2 or 1
    return SETTLED[move][unwanted][last_chance]
end

-- Leave a job, instead of where it should wait again, to those who asked for its end.
local function give_up(job)
    return end_job(job, 'cancelled', job.cancel and 'requested' or 'replaced')
end
