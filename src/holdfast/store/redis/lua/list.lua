-- uses: showing
-- One stretch of a list of jobs, newest id first. It looks at so many jobs at most and says where to go on, so that
-- a long list keeps nobody else waiting.
--
-- ARGV: time, which list (the end of its key), id before which to begin (empty: from the newest), how many jobs to
--   return, how many to look at, MessagePack of 1 queue, 2 task, 3 states (nothing: any)
-- Returns the jobs as views show them, and the id after which to go on, or nothing at the end of the list.

local list, before, wanted, left = prefix .. ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local queue, task, states = unpack(cmsgpack.unpack(ARGV[6]), 1, 3)
local from = before == '' and '+' or '(' .. before
local is_wanted = {}
for _, state in ipairs(states or {}) do
    is_wanted[state] = true
end

local found, last = {}, false
for _, id in ipairs(call('ZREVRANGEBYLEX', list, from, '-', 'LIMIT', 0, left)) do
    if #found == wanted then
        return { found, last }
    end
    local job = find_job(id)
    local fits = job and (not queue or job.queue == queue) and (not task or job.task == task)
    if fits and (not states or is_wanted[shown_state(job)]) then
        found[#found + 1] = shown(job)
    end
    last, left = id, left - 1
end
return { found, left == 0 and last }
