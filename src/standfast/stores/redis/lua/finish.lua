-- uses: claims, tally, bell
-- seldom: finishing (finish_one, completion, with_started_at, was_woken)
-- End claims of a worker, fenced.
--
-- ARGV: time, worker, columns (MessagePack), what is stored of plain completions and results, one after the other
--   columns: 1 ids, 2 fences, 3 lengths of what is stored of plain completions, 4 how long a result is kept, by
--            place, 5 the other endings: {id, fence, move, started_at, delay, reason, error, traceback, log,
--            how long the result is kept, its length}
-- Returns the places of the endings that were refused, plain ones first, and whether a job waits again.

local worker, texts = ARGV[2], ARGV[4]
local ids, fences, lengths, keeps, others = unpack(cmsgpack.unpack(ARGV[3]), 1, 5)
local sub = string.sub
local from, refused, rare = 1, {}, nil

local function rarely()
    rare = rare or finishing()
    return rare
end

local function refuse_unless(is_accepted, place)
    if not is_accepted then
        refused[#refused + 1] = place
    end
end

-- Completions of jobs without a life and without a key are written all at once. Their claims are mostly alike: by
-- the text of one, what is written in front of each, and how many there were; false where more is to be done than
-- to write it. This is own_claim (fence.lua) for many: the worker is compared once for claims that are alike, and
-- the fence of each.
local fronts, times = {}, {}

local function front_of(text)
    local claim = read_claim(text)
    local is_plain = claim.worker == worker and claim.flag == '0'
    return is_plain and cmsgpack.pack(claim.fence, worker, now, claim.cancel, claim.progress)
end

local done_prefix, dones, ended, gone, fading, size = prefix .. 'done:', {}, {}, {}, {}, 0
local claim_texts = each_of('HMGET', prefix .. 'claims', ids)
for index = 1, #ids do
    local id, text, last = ids[index], claim_texts[index], from + lengths[index] - 1
    local front, said = text and fronts[text], sub(texts, from, last)
    if front == nil then
        front = front_of(text)
        fronts[text] = front
    end
    from = last + 1
    if front and read_claim(text).fence == fences[index] then
        local started_at = read_claim(text).started_at
        if started_at then
            said = rarely().with_started_at(said, started_at)
        end
        times[text] = (times[text] or 0) + 1
        size = size + 1
        gone[size] = id
        dones[2 * size - 1], dones[2 * size] = done_prefix .. id, front .. said
        ended[2 * size - 1], ended[2 * size] = now, id
        if keeps[index] then
            fading[#fading + 1], fading[#fading + 2] = now + keeps[index], id
        end
    else
        refuse_unless(rarely().finish_one(worker, rarely().completion(id, fences[index], said)), index)
    end
end
for text, number in pairs(times) do
    local claim = read_claim(text)
    count(claim.state, claim.queue, -number)
    count('completed', claim.queue, number)
end
if size > 0 then
    in_bites('HDEL', prefix .. 'claims', gone)
    in_bites('SREM', prefix .. 'held:' .. worker, gone)
    set_all(dones)
    in_bites('ZADD', prefix .. 'ended', ended)
    in_bites('ZADD', prefix .. 'fading', fading)
end

for index, said in ipairs(others) do
    local length = said[11]
    local ending = {
        id = said[1], fence = said[2], move = said[3], started_at = said[4], delay = said[5] or 0, reason = said[6],
        error = said[7], traceback = said[8], log = said[9], keep = said[10],
        result = length and sub(texts, from, from + length - 1),
    }
    from = from + (length or 0)
    refuse_unless(rarely().finish_one(worker, ending), #ids + index)
end

write_tally()
if #refused < #ids + #others then
    ring('result')
end
local woken = rare and rare.was_woken()
if woken then
    ring('work')
end
return { refused, woken and 1 or 0 }
