-- uses: ending
-- Part: what a worker that is to be buried leaves, and a fingerprint of that, by which the second step knows that it
-- is as the first one saw it.

local function is_to_be_buried(worker, must_be_condemned)
    return call('HEXISTS', prefix .. 'workers', worker) == 1
        and (not must_be_condemned or call('SISMEMBER', prefix .. 'condemned', worker) == 1)
end

-- The ids of the jobs that a worker has.
local function orphans_of(worker)
    local ids = {}
    for _, id in ipairs(call('SMEMBERS', prefix .. 'held:' .. worker)) do
        if claim_of(id) and call('EXISTS', prefix .. 'job:' .. id) == 1 then
            ids[#ids + 1] = id
        end
    end
    return ids
end

local function fingerprint_of(worker)
    local seen = {}
    for _, id in ipairs(orphans_of(worker)) do
        local follower = call('HGET', prefix .. 'followers', id) or ''
        seen[#seen + 1] = redis.sha1hex(id .. call('HGET', prefix .. 'claims', id) .. follower)
    end
    table.sort(seen)
    return redis.sha1hex(table.concat(seen))
end
