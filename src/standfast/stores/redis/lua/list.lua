-- uses: showing, lanes, members
-- One stretch of a list of jobs, newest id first. It looks at so many jobs at most and says where to go on, so that
-- a long list keeps nobody else waiting.
--
-- ARGV: time, which list (the end of its key), id before which to begin (empty: from the newest), id after which all
--   are (empty: any), how many jobs to return, how many to look at, MessagePack of 1 queue, 2 task (nothing: any),
--   3 states; then what is somewhere in what is stored of a wanted job
-- Returns the jobs as views show them; the id after which to go on, or nothing at the end of the list; and how many
--   jobs it looked at.

local list, before, after, wanted, most = prefix .. ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local queue, task, states = unpack(cmsgpack.unpack(ARGV[7]), 1, 3)
local FIRST_PART = 8
local MOST_SORTED = 2000 -- if more jobs wait, some of the newest of all do
local is_wanted = {}
for _, state in ipairs(states) do
    is_wanted[state] = true
end

-- The ids of the jobs that wait for their time, or nothing if they are many.
local function waiting_ids()
    local ids = {}
    for _, name in ipairs(queue and { queue } or call('ZRANGE', prefix .. 'queues', 0, -1)) do
        for _, lane in ipairs(call('SMEMBERS', prefix .. 'lanes:' .. name)) do
            local key = lane_key(name, lane)
            if #ids + call('ZCARD', key) > MOST_SORTED then
                return nil
            end
            for _, member in ipairs(call('ZRANGE', key, 0, -1)) do
                ids[#ids + 1] = string.sub(member, ID_AT)
            end
        end
    end
    return ids
end

-- Those of a list that has no order, and is short.
local function sorted(ids)
    local between = {}
    for _, id in ipairs(ids) do
        if (before == '' or id < before) and id > after then
            between[#between + 1] = id
        end
    end
    table.sort(between, function(one, other) return one > other end)
    return { unpack(between, 1, math.min(#between, most)) }
end

local function ids_of_list()
    local waiting = ARGV[2] == 'lanes' and waiting_ids()
    if waiting then
        return sorted(waiting)
    elseif ARGV[2] == 'lanes' then
        list = prefix .. 'all'
    elseif ARGV[2] == 'claims' then
        return sorted(call('HKEYS', list))
    elseif string.sub(ARGV[2], 1, 5) == 'held:' then
        return sorted(call('SMEMBERS', list))
    end
    local from, to = before == '' and '+' or '(' .. before, after == '' and '-' or '(' .. after
    return call('ZREVRANGEBYLEX', list, from, to, 'LIMIT', 0, most)
end

-- Whether more must be read of a job to tell whether it is wanted: what is cheap to know is looked at first.
local function may_fit(id)
    if not is_wanted.completed and call('EXISTS', prefix .. 'done:' .. id) == 1 then
        return false
    end
    local text = #ARGV >= FIRST_PART and call('GET', prefix .. 'job:' .. id)
    for place = FIRST_PART, text and #ARGV or 0 do
        if not string.find(text, ARGV[place], 1, true) then
            return false
        end
    end
    return true
end

local found, last, looked_at = {}, false, 0
for _, id in ipairs(ids_of_list()) do
    if #found == wanted then
        return { found, last, looked_at }
    end
    local job = may_fit(id) and find_job(id)
    local fits = job and (not queue or job.queue == queue) and (not task or job.task == task)
    if fits and is_wanted[shown_state(job)] then
        found[#found + 1] = shown(job)
    end
    last, looked_at = id, looked_at + 1
end
return { found, looked_at == most and last, looked_at }
