-- uses: ending, fence, remembering
-- Part: one ending by the claim's own worker, with all that may come of it.

local woken = false

local function was_woken()
    return woken
end

-- Read what is stored of a plain completion: started_at, how long the result is kept, whether there is one, the
-- result.
local function completion(id, fence, text)
    local rest, started_at, keep, has_result = cmsgpack.unpack_limit(text, 3)
    return {
        id = id, fence = fence, move = 'complete', started_at = started_at, keep = keep, delay = 0,
        result = has_result and bytes_after(text, rest),
    }
end

-- The same with the time of its start, unless it says one itself.
local function with_started_at(text, started_at)
    local rest, said = cmsgpack.unpack_one(text, 0)
    return said and text or cmsgpack.pack(started_at) .. string.sub(text, rest + 1)
end

local function was_finished(worker, ending)
    local done = call('GET', prefix .. 'done:' .. ending.id)
    if done then
        done = read_done(done)
        return done.fence == ending.fence and done.worker == worker
    end
    local entry = redis.pcall('HGET', prefix .. 'life:' .. ending.id, 'h' .. ending.fence)
    if type(entry) ~= 'string' then
        return false
    end
    local parts = parts_of(entry)
    return type(parts) == 'table' and parts[1] == worker and parts[8] == 'finish'
end

-- Let a job wait for its time, or not at all where the signal that it wants has come.
local function suspend(job, reason, delay)
    if wants_signal(reason) and has_signal(job.id, reason) then
        let_wait(job, 'scheduled', nil, now)
    else
        let_wait(job, 'scheduled', reason, now + delay)
    end
end

local function leave_claim(job, ending, move)
    local rule = MOVES[move]
    if move == 'cancel' and move ~= ending.move then
        return give_up(job)
    elseif rule.is_final then
        local until_at = move == 'complete' and ending.keep and now + ending.keep
        return end_job(job, rule.target, ending.reason, { result = ending.result, until_at = until_at })
    elseif rule.target == 'blocked' then
        let_wait(job, 'blocked', ending.reason)
    elseif rule.target == 'scheduled' then
        suspend(job, ending.reason, ending.delay)
    else
        let_wait(job, 'scheduled')
    end
    return true
end

-- End a claim; tell whether that was accepted, now or before.
local function finish_one(worker, ending)
    if not own_claim(worker, ending.id, ending.fence) then
        return was_finished(worker, ending)
    end
    local job = find_job(ending.id)
    if not job then
        return false
    end
    local move = settled(job, ending.move)
    local error = ending.error
    if move == 'die' and move ~= ending.move then
        error = error or STARTED_ITS_LAST
    end
    if error or move == 'complete' then
        job.error = error
    end
    job.attempt = job.attempt + (MOVES[move].charges and 1 or 0)
    close_claim(job, move, 'finish', {
        started_at = ending.started_at, error = error, traceback = ending.traceback, log = ending.log,
    })
    woken = leave_claim(job, ending, move) or woken
    return true
end
