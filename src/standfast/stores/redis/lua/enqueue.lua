-- uses: accepting, bell
-- seldom: cancelling (key_holder, key_name, replace, shown_state, write_tally)
-- Accept jobs. First everything is looked at, so that a refusal leaves all as it was; then it is written.
--
-- ARGV: time, columns (MessagePack; accepting.lua), what is stored of the jobs, one after the other
-- Returns the ids that were not stored, each with the job that has its key, or with itself if it is the only one and
--   known already; and, where all is refused because of
--   one, task, key, id and state of the job that has it.

local jobs = in_columns(cmsgpack.unpack(ARGV[2]), ARGV[3])

-- The short way for jobs of one lane that are plain and due at once. Tell whether they were accepted: not if one of
-- them is known already.
local function accept_plain(queue, lane)
    local ids, lengths, texts, number = jobs.ids, jobs.lengths, jobs.texts, jobs.number
    local job_prefix, written, every, members, from = prefix .. 'job:', {}, {}, {}, 1
    local format, sub, stamp = string.format, string.sub, string.format('%016d', now)
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

local is_plain = not (jobs.place_of or jobs.run_ats or jobs.delays or jobs.more) and 2 * jobs.number <= BITE
if is_plain and accept_plain(jobs.places[1][1], '0:' .. jobs.places[1][2]) then
    return { {}, false }
end
local rare = jobs.more and cancelling()
leave_out_known(jobs)
if jobs.number == 1 and jobs.left_out[1] then
    return { { jobs.ids[1], jobs.ids[1] }, false }
end
local holder = meet(jobs, rare)
if holder then
    return { {}, holder }
end
local size, has_ended = write_jobs(jobs, rare)
if rare then
    rare.write_tally()
end
if size > 0 then
    wake('work')
end
if has_ended then
    ring('result')
end
return { jobs.met, false }
