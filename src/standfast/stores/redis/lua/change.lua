-- uses: accepting, recording, bell
-- seldom: cancelling (cancel_job, key_holder, key_name, replace, shown_state, write_tally)
-- Make changes of records, each with all that comes of it. First it is seen which of them are to be made.
--
-- ARGV: time, how many fires of a schedule are kept, changes (MessagePack), and for each of them three texts: what is
--   stored of the record, of its fires, and of its jobs, each one after the other
--   a change: 1 kind, 2 name, 3 version seen, 4 token, 5 whether to forget, 6 due_at, 7 fires (recording.lua),
--             8 jobs to withdraw, 9 jobs to cancel, 10 jobs in columns (accepting.lua), or nothing,
--             11 token seen, or nothing for any
-- Returns for each of them 1 if it was made, now or before; or, where all is refused because of a job to withdraw that
--   a worker has, its id.

local kept, changes = tonumber(ARGV[2]), cmsgpack.unpack(ARGV[3])
local rare, is_woken, has_ended = nil, false, false

-- -- which of them ------------------------------------------------------------------------------------------------

local answers, to_make, is_new_work = {}, {}, false
for place, change in ipairs(changes) do
    local kind, name, seen, token, forgets, _, _, withdraws, _, columns, token_seen = unpack(change, 1, 11)
    local version, last_token = version_of(kind, name)
    local is_gone = forgets and version == 0
    local is_as_seen = version == seen and not is_gone and (token_seen or last_token) == last_token
    if is_as_seen then
        for _, id in ipairs(withdraws) do
            if call('HEXISTS', prefix .. 'claims', id) == 1 then
                return id
            end
        end
    end
    if is_gone then
        answers[place] = 1
    elseif is_as_seen then
        answers[place], to_make[#to_make + 1] = 1, place
        is_new_work = is_new_work or columns or version == 0
    else
        answers[place] = version == seen + 1 and token == last_token and 1 or 0
    end
end
if is_new_work then
    call('INCRBY', prefix .. 'arrivals', 0) -- here a full server refuses all of it
end

-- -- making them --------------------------------------------------------------------------------------------------

local function cancel_all(ids)
    for _, id in ipairs(ids) do
        rare = rare or cancelling()
        has_ended = rare.cancel_job(id) == 'cancelled' or has_ended
    end
end

local function enqueue(jobs)
    if jobs.more then
        rare = rare or cancelling()
    end
    leave_out_known(jobs)
    meet(jobs, rare)
    local size, ended = write_jobs(jobs, rare)
    is_woken, has_ended = is_woken or size > 0, has_ended or ended
end

for _, place in ipairs(to_make) do
    local kind, name, seen, _, forgets, due_at, fires, withdraws, cancels, columns = unpack(changes[place], 1, 10)
    local first = 3 * place + 1
    if forgets then
        forget_record(kind, name)
    else
        write_record(kind, name, seen + 1, due_at, ARGV[first])
        note_fires(fires, ARGV[first + 1], kept)
    end
    cancel_all(withdraws)
    cancel_all(cancels)
    if columns then
        enqueue(in_columns(columns, ARGV[first + 2]))
    end
end

if rare then
    rare.write_tally()
end
if is_woken then
    wake('work')
end
if has_ended then
    ring('result')
end
return answers
