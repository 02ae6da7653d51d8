-- uses: lanes, lives, members, tally
-- Part: how a single job comes to wait, for its time or for a worker that knows its task, and how it waits no more.

local function has_key(job)
    return job.key or job.keep_key > 0
end

local function lane_member(job)
    return job.member or job.arrival .. (job.has_life and 2 or 0) + (has_key(job) and 1 or 0) .. job.id
end

local function lane_of(job)
    local lane = string.format('%.0f:', job.group) .. job.priority
    if job.state == 'blocked' then
        lane = lane .. ':' .. job.version .. ':' .. job.task
    end
    return lane
end

local function is_unknown(job)
    return job.state == 'blocked' and job.reason == 'no_worker'
end

-- Whether a scheduled job with this reason waits for a signal.
local function wants_signal(reason)
    return reason and string.sub(reason, 1, 7) == 'signal:'
end

-- Whether a scheduled job has given its slot back on purpose, as model/memos.py says.
local function is_suspended(job)
    return job.reason == 'sleep' or wants_signal(job.reason)
end

-- Find where a job waits that cannot be read, so that it cannot say so itself.
local function find_place(job)
    for _, queue in ipairs(call('ZRANGE', prefix .. 'queues', 0, -1)) do
        for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. queue)) do
            for _, member in ipairs(call('ZRANGE', lane_key(queue, lane), 0, -1)) do
                if string.sub(member, ID_AT) == job.id then
                    local group, priority, version, task = lane_parts(lane)
                    job.queue, job.group, job.priority, job.member = queue, group, priority, member
                    job.version, job.task = version or job.version, task or job.task
                    return
                end
            end
        end
    end
end

-- Write a record that scripts can read of a job whose own they cannot. What it says of lateness nobody else can read, so
-- that the job stays one that cannot be read; what was there is its payload.
local function mend(job)
    local run_at, none = math.max(job.run_at, 0), cmsgpack.pack(nil)
    local said = cmsgpack.pack(job.id, job.task, job.version, job.queue, job.priority, job.max_attempts, run_at, 0)
    said = string.char(0x9c) .. said .. none .. cmsgpack.pack(0) .. none .. cmsgpack.pack('its record is damaged')
    local head = job.arrival .. string.format('%016.0f', job.created_at) .. struct.pack('>I4', #said)
    call('SET', prefix .. 'job:' .. job.id, head .. said .. string.sub(job.text, CREATED + 1))
    job.is_damaged = false
end

-- Put a job that is scheduled or blocked where it belongs.
local function enter(job)
    if job.state == 'blocked' then
        count('blocked', job.queue, 1)
    end
    if job.state == 'scheduled' or is_unknown(job) then
        local lane = lane_of(job)
        call('ZADD', lane_key(job.queue, lane), job.run_at, lane_member(job))
        open_lane(job.queue, lane)
    end
    if is_unknown(job) then
        count_unknown(job.version, job.task, 1)
    elseif job.state == 'scheduled' and job.fence > 0 and not is_suspended(job) then
        call('ZADD', prefix .. 'again:' .. job.queue, job.run_at, job.id)
    end
end

-- Take a job that is scheduled or blocked from where it is.
local function leave(job)
    if job.is_damaged or job.has_no_hash then
        find_place(job)
    end
    if job.state == 'blocked' then
        count('blocked', job.queue, -1)
    end
    if job.state == 'scheduled' or is_unknown(job) then
        local lane = lane_of(job)
        local key = lane_key(job.queue, lane)
        call('ZREM', key, lane_member(job))
        if call('EXISTS', key) == 0 then
            close_lane(job.queue, lane)
        end
        job.member = nil
    end
    if is_unknown(job) then
        count_unknown(job.version, job.task, -1)
    elseif job.state == 'scheduled' and job.fence > 0 and not is_suspended(job) then
        call('ZREM', prefix .. 'again:' .. job.queue, job.id)
    end
end

-- Write what of a life is as in `changes`; what is `false` there is no more.
local function write_life(job, changes)
    local set, gone = {}, {}
    if job.is_damaged then
        mend(job)
    end
    if job.has_no_hash then
        call('DEL', prefix .. 'life:' .. job.id)
        job.has_no_hash = nil
    end
    for field, value in pairs(changes) do
        if value then
            set[#set + 1], set[#set + 2] = field, value
        else
            gone[#gone + 1] = field
        end
    end
    call('HSET', prefix .. 'life:' .. job.id, unpack(set))
    if #gone > 0 and job.has_life then
        call('HDEL', prefix .. 'life:' .. job.id, unpack(gone))
    end
    job.has_life = true
end

local function life_numbers(job)
    return {
        f = job.fence, a = job.attempt, c = job.crashes, o = job.group > 0 and job.group or false,
        x = job.cancel and 1 or false, e = job.error or false,
    }
end

-- Let a job that nobody has wait: for its time, which is another one if `run_at` is given, or blocked. A reason says
-- for what else.
local function let_wait(job, state, reason, run_at)
    local changes = life_numbers(job)
    changes.s, changes.y = state, reason or false
    changes.w, changes.z, changes.p, changes.n = false, false, false, false
    if run_at then
        changes.t, job.run_at = micros(run_at), run_at
    end
    write_life(job, changes)
    job.state, job.reason, job.claim, job.after = state, reason, nil, nil
    enter(job)
end
