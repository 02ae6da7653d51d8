-- uses: base
-- Part: to ask about many keys or fields at once.

-- What a command answers about a key and a list of arguments, however long, one answer for each.
local function each_of(command, key, arguments)
    if #arguments <= BITE then
        return #arguments > 0 and call(command, key, unpack(arguments)) or {}
    end
    local answers = {}
    for first = 1, #arguments, BITE do
        local last = math.min(first + BITE - 1, #arguments)
        for place, answer in ipairs(call(command, key, unpack(arguments, first, last))) do
            answers[first + place - 1] = answer
        end
    end
    return answers
end

-- The values of a list of keys, however long.
local function values_of(keys)
    local values = {}
    for first = 1, #keys, BITE do
        local bite = call('MGET', unpack(keys, first, math.min(first + BITE - 1, #keys)))
        if first == 1 and #keys <= BITE then
            return bite
        end
        for place = 1, #bite do
            values[first + place - 1] = bite[place]
        end
    end
    return values
end
