-- uses: base, entrance, bell
-- seldom: replacing (key_name, taken_by, replace, write_tally)
-- Accept jobs. First everything is looked at, so that a refusal leaves all as it was; then it is written.
--
-- ARGV: time, columns (MessagePack), what is stored of the jobs, one after the other
--   columns: 1 ids, 2 lengths of what is stored, 3 queues and priorities that occur, 4 which of them each job has
--            (nothing: all the first), 5 run_at by place, 6 delay by place, 7 what more there is to say, by place:
--            1 task, 2 key, 3 on_conflict, 4 tags, 5 whether it has the flag for a key
-- Returns the ids that were not stored, each with the job that has its key; and, where all is refused because of
--   one, task, key, id and state of the job that has it.

local ids, lengths, places, place_of, run_ats, delays, more = unpack(cmsgpack.unpack(ARGV[2]), 1, 7)
local texts, number, format, sub = ARGV[3], #ids, string.format, string.sub
local stamp, rare = format('%016d', now), more and replacing()

-- The short way for jobs of one lane that are plain and due at once. Tell whether they were accepted: not if one of
-- them is known already.
local function accept_plain(queue, lane)
    local job_prefix, written, every, members, from = prefix .. 'job:', {}, {}, {}, 1
    local arrivals = call('INCRBY', prefix .. 'arrivals', number) - number
    for index = 1, number do
        local id, arrival, last = ids[index], format('%015d', arrivals + index), from + lengths[index] - 1
        written[2 * index - 1], written[2 * index] = job_prefix .. id, arrival .. stamp .. sub(texts, from, last)
        every[2 * index - 1], every[2 * index] = 0, id
        members[2 * index - 1], members[2 * index] = now, arrival .. '0' .. id
        from = last + 1
    end
    if call('MSETNX', unpack(written)) == 0 then
        return false
    end
    call('ZADD', prefix .. 'all', unpack(every))
    if call('ZADD', lane_key(queue, lane), unpack(members)) == call('ZCARD', lane_key(queue, lane)) then
        open_lane(queue, lane)
    end
    wake('work')
    return true
end

local is_plain = not (place_of or run_ats or delays or more) and 2 * number <= BITE
if is_plain and accept_plain(places[1][1], '0:' .. places[1][2]) then
    return { {}, false }
end

local function run_at_of(index)
    return run_ats and run_ats[index] or now + (delays and delays[index] or 0)
end

-- Which of the jobs are left out, as they are known already.
local job_keys, left_out, known = {}, {}, 0
for index = 1, number do
    job_keys[index] = prefix .. 'job:' .. ids[index]
end
for first = 1, number, BITE do
    known = known + call('EXISTS', unpack(job_keys, first, math.min(first + BITE - 1, number)))
end
if known > 0 then
    for index = 1, number do
        left_out[index] = call('EXISTS', job_keys[index]) == 1
    end
end

-- Which of them meet a job that has their key, and which take it away from one.
local met, taking = {}, {}
if more then
    local holders = {} -- by key, as this call goes on
    for index = 1, number do
        local said = more[index]
        if said and said[2] and not left_out[index] then
            local name = rare.key_name(said[1], said[2])
            local holder = holders[name] or rare.taken_by(said[1], said[2])
            if holder and said[3] == 'raise' then
                return { {}, { said[1], said[2], holder.id, holder.shown_state } }
            elseif holder and (said[3] == 'return' or holder.state == 'completed') then
                met[#met + 1], met[#met + 2] = ids[index], holder.id
                left_out[index] = true
            else
                taking[index] = holder and true
                local state = run_at_of(index) <= now and 'ready' or 'scheduled'
                holders[name] = { id = ids[index], state = state, shown_state = state }
            end
        end
    end
end

-- Write them; those that take a key away come last, one by one.
local function put(lists, name, first, second)
    local list = lists[name]
    if not list then
        list = {}
        lists[name] = list
    end
    local size = #list
    list[size + 1], list[size + 2] = first, second
end

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
            flag = said[5] and '1' or '0'
            for _, tag in ipairs(said[4]) do
                put(findable, 'tag:' .. tag, 0, id)
            end
            if said[2] then
                put(findable, 'keyed:' .. said[2], 0, id)
            end
            if said[2] and not taking[index] then
                key_names[#key_names + 1], key_names[#key_names + 2] = rare.key_name(said[1], said[2]), id
            end
        end
        if taking[index] then
            last[#last + 1] = index
        else
            put(lanes, place_of and place_of[index] or 1, run_at_of(index), arrival .. flag .. id)
        end
    end
    from = text_end + 1
end
if size == 0 then
    return { met, false }
end
set_all(written)
set_all(key_names)
in_bites('ZADD', prefix .. 'all', every)
for name, members in pairs(findable) do
    in_bites('ZADD', prefix .. name, members)
end
for place, members in pairs(lanes) do
    local queue, lane = places[place][1], '0:' .. places[place][2]
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
if rare then
    rare.write_tally()
end
wake('work')
if has_ended then
    ring('result')
end
return { met, false }
