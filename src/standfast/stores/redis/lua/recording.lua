-- uses: reading
-- Part: records, and what was decided about fires. What of them no script reads is written by rows.py.

local VERSION_DIGITS = 15
local SAID = VERSION_DIGITS + 4 -- the version and a length, before the array

local function records_key(kind)
    return prefix .. 'records:' .. kind
end

local function due_key(kind)
    return prefix .. 'due:' .. kind
end

local function fires_key(schedule)
    return prefix .. 'fires:' .. schedule
end

-- The version of a record, 0 if there is none, and the token of the change that made it.
local function version_of(kind, name)
    local text = call('HGET', records_key(kind), name)
    if not text then
        return 0, nil
    end
    local is_whole, _, said = pcall(cmsgpack.unpack_one, text, SAID)
    return tonumber(string.sub(text, 1, VERSION_DIGITS)) or 1, is_whole and type(said) == 'table' and said[1] or ''
end

-- Those of the named records that exist: name, what is stored of it, one after the other.
local function records_of(kind, names)
    local found = {}
    for place, text in ipairs(each_of('HMGET', records_key(kind), names)) do
        if text then
            found[#found + 1], found[#found + 2] = names[place], text
        end
    end
    return found
end

local function write_record(kind, name, version, due_at, said)
    call('HDEL', records_key(kind), name) -- a full server accepts this, and with it the next one
    call('HSET', records_key(kind), name, string.format('%0' .. VERSION_DIGITS .. 'd', version) .. said)
    if due_at then
        call('ZADD', due_key(kind), due_at, name)
    else
        call('ZREM', due_key(kind), name)
    end
end

local function forget_record(kind, name)
    call('HDEL', records_key(kind), name)
    call('ZREM', due_key(kind), name)
    if kind == 'schedule' then
        call('DEL', fires_key(name))
        call('ZREM', prefix .. 'fired', name)
    end
end

-- Write a fire, in place of one of the same time and cause.
local function note_fire(schedule, planned, cause, said)
    local key, front = fires_key(schedule), cause .. ':'
    for _, known in ipairs(call('ZRANGEBYSCORE', key, planned, planned)) do
        if string.sub(known, 1, #front) == front then
            call('ZREM', key, known)
        end
    end
    call('ZADD', key, planned, front .. string.format('%016d', now) .. said)
end

-- Write fires, each with 1 schedule, 2 planned, 3 cause, 4 the length of what is stored of it, and keep so many of a
-- schedule.
local function note_fires(fires, texts, kept)
    local from, latest = 1, {}
    for _, fire in ipairs(fires) do
        local schedule, planned, cause, length = unpack(fire, 1, 4)
        note_fire(schedule, planned, cause, string.sub(texts, from, from + length - 1))
        latest[schedule] = math.max(latest[schedule] or planned, planned)
        from = from + length
    end
    for schedule, planned in pairs(latest) do
        call('ZADD', prefix .. 'fired', 'GT', planned, schedule)
        call('ZREMRANGEBYRANK', fires_key(schedule), 0, -kept - 1)
    end
end
