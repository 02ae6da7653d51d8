-- uses: base
-- Part: the memos of a job, and the signals among them. Their texts are rows.py's: in front of the body is a stamp
-- of by which claim it was written, and by which save of that; of two the later one is the greater, also as text.
--
-- A job that waits for a signal has the reason signal:<name>. The memos of such signals are named <reason>:<token>;
-- one without a body is of a signal that was taken.

local STAMP = 30

local function memo_key(id)
    return prefix .. 'memo:' .. id
end

-- Write one memo, but not over one that is as late or later.
local function write_memo(id, name, text)
    local old = call('HGET', memo_key(id), name)
    if not old or string.sub(old, 1, STAMP) < string.sub(text, 1, STAMP) then
        call('HDEL', memo_key(id), name) -- a full server accepts this, and with it the next one
        call('HSET', memo_key(id), name, text)
    end
end

-- How many signals a job was sent, taken or not.
local function signals_sent(id)
    local sent = 0
    for _, name in ipairs(call('HKEYS', memo_key(id))) do
        sent = sent + (string.sub(name, 1, 7) == 'signal:' and 1 or 0)
    end
    return sent
end

-- Whether a signal that a job with this reason waits for has come and is not taken. It asks for lengths, as bodies may be
-- long.
local function has_signal(id, reason)
    local start = reason .. ':'
    for _, name in ipairs(call('HKEYS', memo_key(id))) do
        if string.sub(name, 1, #start) == start and call('HSTRLEN', memo_key(id), name) > STAMP then
            return true
        end
    end
    return false
end
