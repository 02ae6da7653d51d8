-- uses: lives
-- The little of jobs that those who wait for them look at again and again.
--
-- ARGV: time, MessagePack of the ids
-- Returns id, state and progress of each that exists, one after the other.

local ids = cmsgpack.unpack(ARGV[2])
local done_keys, seen, size = {}, {}, 0
for place, id in ipairs(ids) do
    done_keys[place] = prefix .. 'done:' .. id
end
local claims, dones = each_of('HMGET', prefix .. 'claims', ids), values_of(done_keys)
for place, id in ipairs(ids) do
    local job = read_claim(claims[place]) or not dones[place] and find_job(id)
    if job or dones[place] then
        local state = job and shown_state(job) or 'completed'
        local progress = (job or read_done(dones[place])).progress
        seen[size + 1], seen[size + 2], seen[size + 3] = id, state, progress or false
        size = size + 3
    end
end
return seen
