-- uses: base
-- Part: completions of jobs that had neither a life nor a key: a row of MessagePack values, then the result. The
-- first five are written by the script, and alike for jobs of one call; the others are rows.py's.

local DONE_VALUES = 8

-- What follows the values that were read from a text; the reader says -1 where nothing does.
local function bytes_after(text, offset)
    return offset < 0 and '' or string.sub(text, offset + 1)
end

local function read_done(text)
    local is_whole, rest, fence, worker, finished_at, cancel, progress, started_at, keep, has_result =
        pcall(cmsgpack.unpack_limit, text, DONE_VALUES)
    if not is_whole or type(fence) ~= 'number' or type(finished_at) ~= 'number' then
        return { fence = 0, worker = '', finished_at = 0, cancel = false, result = text } -- which nobody can read as a result
    end
    return {
        fence = fence, worker = worker, finished_at = finished_at, cancel = cancel, progress = progress,
        started_at = started_at, until_at = keep and finished_at + keep,
        result = has_result and bytes_after(text, rest),
    }
end

-- The same without its result.
local function without_result(text)
    local head = cmsgpack.unpack_limit(text, DONE_VALUES - 1)
    return string.sub(text, 1, head) .. cmsgpack.pack(false)
end
