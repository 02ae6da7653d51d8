-- uses: waiting
-- Part: who has a key of a task, and what becomes of it when a job ends.

local KEPT_LONGER_MS = 60000 -- what is over is judged by the script; the server's own expiry only tidies up, later

local function key_name(task, key)
    return prefix .. 'key:' .. #task .. ':' .. task .. ':' .. key
end

-- Whether a job, if it was the last to get its key, has it still.
local function keeps_key(job)
    if job.state == 'completed' then
        return job.finished_at + job.keep_key > now
    end
    return job.state ~= 'dead' and job.state ~= 'cancelled'
end

-- Return the job that has a key now, if any.
local function key_holder(task, key)
    local id = call('GET', key_name(task, key))
    local job = id and find_job(id)
    return job and keeps_key(job) and job or nil
end

local function give_key(job, id)
    call('SET', key_name(job.task, job.key), id)
end

-- Let a job that ended keep its key for its time, or give it free at once.
local function leave_key(job)
    local name = job.key and key_name(job.task, job.key)
    if not name or call('GET', name) ~= job.id then
        return
    end
    if keeps_key(job) then
        call('PEXPIRE', name, micros(math.floor(job.keep_key / 1000) + KEPT_LONGER_MS))
    else
        call('DEL', name)
    end
end

-- Let the job that waited for the end of this one wait for its time; tell whether there was one.
local function free_follower(job)
    local id = job.key and call('HGET', prefix .. 'followers', job.id)
    if not id then
        return false
    end
    call('HDEL', prefix .. 'followers', job.id)
    local follower = find_job(id)
    if follower then
        leave(follower)
        let_wait(follower, 'scheduled')
    end
    return true
end
