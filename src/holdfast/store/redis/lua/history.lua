-- uses: lives
-- ARGV: time, id. Returns every claim of the job: fence, worker, started_at, ended_at, how, error, traceback, log.

local job = find_job(ARGV[2])
if not job then
    return {}
end

local function row(fence, worker, started_at, ended_at, how, error, traceback, log)
    return {
        fence, worker, shown_time(started_at), shown_time(ended_at), how or false, error or false,
        traceback or false, log or false,
    }
end

local claims = {}
local life = redis.pcall('HGETALL', prefix .. 'life:' .. job.id)
for place = 1, #life, 2 do
    local fence = string.match(life[place], '^h(%d+)$')
    local parts = fence and parts_of(life[place + 1])
    if fence and type(parts) == 'table' and type(parts[1]) == 'string' then
        claims[#claims + 1] = row(tonumber(fence), unpack(parts, 1, 8))
    end
end
if job.claim then
    claims[#claims + 1] = row(job.fence, job.worker, job.claim.started_at)
elseif job.done then
    claims[#claims + 1] = row(job.fence, job.worker, job.done.started_at, job.finished_at, 'complete')
end
table.sort(claims, function(one, other) return one[1] < other[1] end)
return claims
