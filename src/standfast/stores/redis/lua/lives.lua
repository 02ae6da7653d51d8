-- uses: base, claims, done
-- Part: a job and its life. A life is a hash of what is not as it was when the job was accepted:
--   s state, but for claimed jobs   y reason          t run_at               f fence of the last claim that ended
--   a attempt                       c crashes         o its group as a suspect       x 1: asked to cancel
--   w who had it, if it is over     z finished_at     e last error           p progress
--   v result                        u until when      n the job it waits for, if it is blocked(replacing)
--   h<fence>  how that claim ended: worker, started_at, ended_at, how, error, traceback, log, by whom
--   k         of a long history, how many claims ended how between the first and the last (folding.lua)

local LIFE_FIELDS = { 's', 'y', 't', 'f', 'a', 'c', 'o', 'x', 'w', 'z', 'e', 'p', 'v', 'u', 'n' }

local ARRIVED, CREATED, HEAD = 15, 31, 35 -- where arrival, micros and the length of the array end
local DAMAGED = { '', '?', 0, '?', 0, 1, 0 } -- what is said of a job that cannot be read

-- What is stored of a job, or nothing; of what is no text as if it were an empty one.
local function text_of(id)
    local text = redis.pcall('GET', prefix .. 'job:' .. id)
    return type(text) == 'table' and '' or text
end

-- The fields of a life; if that is no hash, none, and true.
local function life_of(id, ...)
    local life = redis.pcall('HMGET', prefix .. 'life:' .. id, ...)
    return life.err and {} or life, life.err and true
end

-- The parts of a stored list; nothing if it cannot be read.
local function parts_of(text)
    return select(2, pcall(function() return { cmsgpack.unpack(text) } end))
end

local function is_sound(said)
    return type(said) == 'table' and type(said[2]) == 'string' and type(said[3]) == 'number'
        and type(said[4]) == 'string' and type(said[5]) == 'number' and type(said[6]) == 'number'
        and type(said[7] or 0) == 'number' and type(said[8] or 0) == 'number' and type(said[9] or '') == 'string'
        and type(said[10] or 0) == 'number' and type(said[13] or {}) == 'table'
end

-- Return the job as it was accepted.
local function read_accepted(id, text)
    local is_whole, _, said = pcall(cmsgpack.unpack_one, text, HEAD)
    local created_at = tonumber(string.sub(text, ARRIVED + 1, CREATED))
    local is_damaged = not (is_whole and created_at and is_sound(said) and said[1] == id)
    if is_damaged then
        said, created_at, text = DAMAGED, 0, string.rep('0', CREATED) .. text
    end
    return {
        is_damaged = is_damaged,
        id = id, text = text, arrival = string.sub(text, 1, ARRIVED), created_at = created_at,
        task = said[2], version = said[3], queue = said[4], priority = said[5], max_attempts = said[6],
        first_run_at = said[7] or created_at + (said[8] or 0), key = said[9], keep_key = said[10] or 0,
        tags = said[13] or {},
    }
end

local function add_life(job, life, is_none)
    job.has_no_hash = is_none
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
    job.queue = job.is_damaged and claim.queue or job.queue
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
    local text = text_of(id)
    if not text then
        return nil
    end
    local job = read_accepted(id, text)
    add_life(job, life_of(id, unpack(LIFE_FIELDS)))
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
