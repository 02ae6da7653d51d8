-- uses: base, claims, done
-- Part: a job and its life. A life is a hash of what is not as it was when the job was accepted:
--   s state, but for claimed jobs   y reason          t run_at               f fence of the last claim that ended
--   a attempt                       c crashes         o its group as a suspect       x 1: asked to cancel
--   w who had it, if it is over     z finished_at     e last error           p progress
--   v result                        u until when      n the job it waits for, if it is blocked(replacing)
--   h<fence>  how that claim ended: worker, started_at, ended_at, how, error, traceback, log, by whom

local LIFE_FIELDS = { 's', 'y', 't', 'f', 'a', 'c', 'o', 'x', 'w', 'z', 'e', 'p', 'v', 'u', 'n' }

-- Return the job as it was accepted.
local function read_accepted(id, text)
    local ARRIVED, CREATED, HEAD = 15, 31, 35 -- where arrival, micros and the length of the array end
    local _, said = cmsgpack.unpack_one(text, HEAD)
    local created_at = tonumber(string.sub(text, ARRIVED + 1, CREATED))
    return {
        id = id, text = text, arrival = string.sub(text, 1, ARRIVED), created_at = created_at,
        task = said[2], version = said[3], queue = said[4], priority = said[5], max_attempts = said[6],
        first_run_at = said[7] or created_at + (said[8] or 0), key = said[9], keep_key = said[10] or 0,
        tags = said[13] or {},
    }
end

local function add_life(job, life)
    job.has_life = life[1] and true
    job.life_state, job.reason, job.run_at = life[1], life[2], tonumber(life[3]) or job.first_run_at
    job.moved_to = life[3]
    job.fence, job.attempt, job.crashes = tonumber(life[4]) or 0, tonumber(life[5]) or 0, tonumber(life[6]) or 0
    job.group, job.cancel, job.worker, job.finished_at = tonumber(life[7]) or 0, life[8] == '1', life[9], tonumber(life[10])
    job.error, job.progress, job.result, job.until_at, job.after =
        life[11], life[12], life[13], tonumber(life[14]), life[15]
    job.state = life[1] or 'scheduled'
end

local function add_claim(job, claim)
    job.claim, job.state, job.reason = claim, claim.state, false
    job.fence, job.worker, job.progress, job.cancel = claim.fence, claim.worker, claim.progress, claim.cancel
end

local function add_done(job, done)
    job.state, job.fence, job.worker, job.finished_at = 'completed', done.fence, done.worker, done.finished_at
    job.cancel, job.progress, job.result, job.until_at = done.cancel, done.progress, done.result, done.until_at
    job.done = done
end

-- Return all there is to know about a job, or nothing if there is none.
local function find_job(id)
    local text = call('GET', prefix .. 'job:' .. id)
    if not text then
        return nil
    end
    local job = read_accepted(id, text)
    add_life(job, call('HMGET', prefix .. 'life:' .. id, unpack(LIFE_FIELDS)))
    local claim = claim_of(id)
    local done = not claim and not job.has_life and call('GET', prefix .. 'done:' .. id)
    if claim then
        add_claim(job, claim)
    elseif done then
        add_done(job, read_done(done))
    end
    return job
end

-- A time, if there is one, as replies have it.
local function shown_time(time)
    return time and micros(time) or false
end

-- The state that people see: what waits for its time only is ready once that has come.
local function shown_state(job)
    return job.state == 'scheduled' and job.run_at <= now and 'ready' or job.state
end
