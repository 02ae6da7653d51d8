-- uses: base, entrance
-- Part: how jobs are accepted that have more to say than every job. First they are looked at, then written. `rare` has
-- what it takes to see to keys (keys.lua, cancelling.lua), for jobs that need it.
--
-- Jobs come in columns: 1 ids, 2 lengths of what is stored, 3 queues and priorities that occur, 4 which of them each
-- job has (nothing: all the first), 5 run_at by place, 6 delay by place, 7 what more there is to say, by place: 1 task,
-- 2 key, 3 on_conflict, 4 tags, 5 whether it has the flag for a key. What is stored of them is one text.

local function in_columns(columns, texts)
    local jobs = { texts = texts, left_out = {}, met = {}, taking = {} }
    jobs.ids, jobs.lengths, jobs.places, jobs.place_of, jobs.run_ats, jobs.delays, jobs.more = unpack(columns, 1, 7)
    jobs.number = #jobs.ids
    return jobs
end

local function run_at_of(jobs, index)
    return jobs.run_ats and jobs.run_ats[index] or now + (jobs.delays and jobs.delays[index] or 0)
end

-- Leave out those that are known already.
local function leave_out_known(jobs)
    local number, job_keys, known = jobs.number, {}, 0
    for index = 1, number do
        job_keys[index] = prefix .. 'job:' .. jobs.ids[index]
    end
    for first = 1, number, BITE do
        known = known + call('EXISTS', unpack(job_keys, first, math.min(first + BITE - 1, number)))
    end
    if known > 0 then
        for index = 1, number do
            jobs.left_out[index] = call('EXISTS', job_keys[index]) == 1
        end
    end
    jobs.keys = job_keys
end

-- Find out which of them meet a job that has their key, and which take it away from one. Where one of them is not to
-- meet any, return task, key, id and state of the job that has it.
local function meet(jobs, rare)
    local left_out, met, taking = jobs.left_out, jobs.met, jobs.taking
    local holders = {} -- by key, as this call goes on
    for index = 1, jobs.more and jobs.number or 0 do
        local said = jobs.more[index]
        if said and said[2] and not left_out[index] then
            local id, task, key, on_conflict = jobs.ids[index], unpack(said, 1, 3)
            local name = rare.key_name(task, key)
            local holder = holders[name] or rare.key_holder(task, key)
            if holder and on_conflict == 'raise' then
                return { task, key, holder.id, rare.shown_state(holder) }
            elseif holder and (on_conflict == 'return' or holder.state == 'completed') then
                met[#met + 1], met[#met + 2] = id, holder.id
                left_out[index] = true
            else
                taking[index] = holder and true
                holders[name] = { id = id, state = 'scheduled', run_at = run_at_of(jobs, index) }
            end
        end
    end
end

local function put(lists, name, first, second)
    local list = lists[name]
    if not list then
        list = {}
        lists[name] = list
    end
    local size = #list
    list[size + 1], list[size + 2] = first, second
end

-- Write them; those that take a key away come last, one by one. Return how many there were, and whether another job
-- has ended.
local function write_jobs(jobs, rare)
    local ids, lengths, texts, place_of, more = jobs.ids, jobs.lengths, jobs.texts, jobs.place_of, jobs.more
    local left_out, taking, number, job_keys = jobs.left_out, jobs.taking, jobs.number, jobs.keys
    local format, sub, stamp = string.format, string.sub, string.format('%016d', now)
    local written, every, findable, key_names, lanes, last = {}, {}, {}, {}, {}, {}
    local arrivals = call('INCRBY', prefix .. 'arrivals', number) - number
    local from, size = 1, 0
    for index = 1, number do
        local text_end = from + lengths[index] - 1
        if not left_out[index] then
            local id, flag, said = ids[index], '0', more and more[index]
            local arrival = format('%015d', arrivals + index)
            size = size + 1
            written[2 * size - 1], written[2 * size] = job_keys[index], arrival .. stamp .. sub(texts, from, text_end)
            every[2 * size - 1], every[2 * size] = 0, id
            if said then
                local task, key, _, tags, has_flag = unpack(said, 1, 5)
                flag = has_flag and '1' or '0'
                for _, tag in ipairs(tags) do
                    put(findable, prefix .. 'tag:' .. tag, 0, id)
                end
                if key then
                    put(findable, prefix .. 'keyed:' .. key, 0, id)
                end
                if key and not taking[index] then
                    key_names[#key_names + 1], key_names[#key_names + 2] = rare.key_name(task, key), id
                end
            end
            if taking[index] then
                last[#last + 1] = index
            else
                put(lanes, place_of and place_of[index] or 1, run_at_of(jobs, index), arrival .. flag .. id)
            end
        end
        from = text_end + 1
    end
    set_all(written)
    set_all(key_names)
    in_bites('ZADD', prefix .. 'all', every)
    for key, members in pairs(findable) do
        in_bites('ZADD', key, members)
    end
    for place, members in pairs(lanes) do
        local queue, lane = jobs.places[place][1], '0:' .. jobs.places[place][2]
        local key = lane_key(queue, lane)
        if call('EXISTS', key) == 0 then
            open_lane(queue, lane)
        end
        in_bites('ZADD', key, members)
    end
    local has_ended = false
    for _, index in ipairs(last) do
        has_ended = rare.replace(ids[index]) or has_ended
    end
    return size, has_ended
end
