-- uses: lives, moves
-- Part: what lies between the first and the last claims of a job's history, counted by how they ended: in the field
-- `k` of its life, {the last fence that is counted, how to {last fence, started_at, ended_at, how many}}.

local COUNTED_AT_ONCE = 500 -- of a history of an older release, which had no bound: a look at all would take long

local function is_kind(said)
    return type(said) == 'table' and type(said[1]) == 'number' and type(said[2] or 0) == 'number'
        and type(said[3]) == 'number' and type(said[4]) == 'number'
end

-- What is counted of a job so far; what cannot be read is as if it were not.
local function folded_of(id)
    local text = redis.pcall('HGET', prefix .. 'life:' .. id, 'k')
    local parts = type(text) == 'string' and parts_of(text)
    if type(parts) ~= 'table' or type(parts[1]) ~= 'number' or type(parts[2]) ~= 'table' then
        return { FIRST, {} }
    end
    for how, kind in pairs(parts[2]) do
        parts[2][how] = is_kind(kind) and kind or nil
    end
    return parts
end

-- How one claim ended; nothing of one that cannot be read.
local function read_entry(text)
    local parts = text and parts_of(text)
    local is_sound = type(parts) == 'table' and type(parts[1]) == 'string' and type(parts[2] or 0) == 'number'
        and type(parts[3]) == 'number' and type(parts[4]) == 'string'
    return is_sound and parts or nil
end

-- The entries of a job's history from one fence to another.
local function entries_of(id, from, to)
    local fields = {}
    for fence = from, to do
        fields[#fields + 1] = 'h' .. fence
    end
    local texts = #fields > 0 and redis.pcall('HMGET', prefix .. 'life:' .. id, unpack(fields)) or {}
    return texts.err and {} or texts, fields
end

-- Count further claims of a job up to a fence, but not too many at once. Returns the fields of those.
local function count_up_to(id, folded, last)
    local from, kinds = folded[1] + 1, folded[2]
    last = math.min(last, folded[1] + COUNTED_AT_ONCE)
    local texts, fields = entries_of(id, from, last)
    for place = 1, #fields do
        local entry = read_entry(texts[place])
        if entry then
            local how = entry[4]
            local kind = kinds[how] or { 0, false, 0, 0 }
            local started_at = entry[2] or kind[2]
            kind[1], kind[2] = from + place - 1, kind[2] and math.min(kind[2], started_at) or started_at
            kind[3], kind[4] = math.max(kind[3], entry[3]), kind[4] + 1
            kinds[how] = kind
        end
    end
    folded[1] = math.max(last, folded[1])
    return fields
end
