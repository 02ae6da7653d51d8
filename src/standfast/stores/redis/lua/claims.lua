-- uses: reading
-- Part: the claims. What is written of one is short and alike for the fresh jobs that a queue gives in one call: so
-- it is made and read once for all of them. What was read must not be changed: a change is a new text.

local known_claims = {}
local BUSY = { held = true, running = true }
local BEYOND = 1000000 -- the fence of a claim that cannot be read: it is nobody's, and later ones are greater than its own

local function claim_text(claim)
    return cmsgpack.pack(
        claim.worker, claim.fence, claim.call, claim.queue, claim.flag, claim.state, claim.cancel, claim.started_at,
        claim.progress
    )
end

-- Return the claim that a text tells of, or nothing if there is none.
local function read_claim(text)
    if not text then
        return nil
    end
    local claim = known_claims[text]
    if not claim then
        local is_sound, worker, fence, number, queue, flag, state, cancel, started_at, progress =
            pcall(cmsgpack.unpack, text)
        if not is_sound or type(fence) ~= 'number' or type(number) ~= 'number' or not (queue and BUSY[state]) then
            worker, fence, number, queue, flag, state, cancel, started_at = '', BEYOND, 0, '?', '1', 'held', false, nil
        end
        claim = {
            worker = worker, fence = fence, call = number, queue = queue, flag = flag, state = state,
            cancel = cancel, started_at = started_at, progress = progress,
        }
        known_claims[text] = claim
    end
    return claim
end

local function claim_of(id)
    return read_claim(call('HGET', prefix .. 'claims', id))
end

-- Write a claim with some of it changed. The table of the changes becomes the new claim.
local function change_claim(id, claim, changes)
    for name, value in pairs(claim) do
        if changes[name] == nil then
            changes[name] = value
        end
    end
    call('HDEL', prefix .. 'claims', id) -- a full server accepts this, and with it the next one
    call('HSET', prefix .. 'claims', id, claim_text(changes))
end
