-- uses: lives
-- Part: a job as views show it (rows.py).

local function shown(job)
    local is_over = job.until_at and job.until_at <= now
    return {
        job.text, shown_state(job), job.reason or false, job.moved_to or false, shown_time(job.finished_at),
        job.fence, job.attempt, job.crashes, job.group, job.cancel and 1 or 0, job.worker or false,
        not is_over and job.result or false, job.error or false, job.progress or false, job.after or false,
        shown_time(job.until_at), job.id, job.queue,
    }
end
