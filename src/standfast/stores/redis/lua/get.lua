-- uses: showing
-- ARGV: time, id. Returns the job as views show it, or nothing.

local job = find_job(ARGV[2])
return job and shown(job)
