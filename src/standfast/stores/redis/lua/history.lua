-- uses: folding
-- ARGV: time, id, what was counted before.
-- Returns what is counted so far and is to be given again, as that was much already; or nothing, and every claim of the
--   job: fence, worker, started_at, ended_at, how, error, traceback, log; of those between the first and the last, for
--   how many of a kind it stands.

local job = find_job(ARGV[2])
if not job then
    return { false, {} }
end

local last = job.fence - LAST
local folded, counted = folded_of(job.id), ARGV[3] ~= '' and parts_of(ARGV[3])
if counted and counted[1] > folded[1] then
    folded = counted
end
count_up_to(job.id, folded, last)
if folded[1] < last then
    return { cmsgpack.pack(unpack(folded)), {} }
end

local claims = {}
local function add(fence, worker, started_at, ended_at, how, error, traceback, log, number)
    claims[#claims + 1] = {
        fence, worker, shown_time(started_at), shown_time(ended_at), how or false, error or false,
        traceback or false, log or false, number,
    }
end

local function add_entries(from, to)
    local texts = entries_of(job.id, from, to)
    for place = 1, to - from + 1 do
        local entry = read_entry(texts[place])
        if entry then
            local worker, started_at, ended_at, how, error, traceback, log = unpack(entry, 1, 7)
            add(from + place - 1, worker, started_at, ended_at, how, error, traceback, log, 0)
        end
    end
end

add_entries(1, math.min(FIRST, job.fence))
for how, kind in pairs(folded[2]) do
    add(kind[1], '', kind[2], kind[3], how, nil, nil, nil, kind[4])
end
add_entries(math.max(folded[1], FIRST) + 1, job.fence)
if job.claim then
    add(job.fence, job.worker, job.claim.started_at, nil, nil, nil, nil, nil, 0)
elseif job.done then
    add(job.fence, job.worker, job.done.started_at, job.finished_at, 'complete', nil, nil, nil, 0)
end
table.sort(claims, function(one, other) return one[1] < other[1] end)
return { false, claims }
