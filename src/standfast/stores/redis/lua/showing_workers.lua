-- uses: claims
-- Part: the registered workers as views show them.

local function shown_workers()
    local workers, condemned = {}, {}
    for _, worker in ipairs(call('SMEMBERS', prefix .. 'condemned')) do
        condemned[worker] = true
    end
    local registered = call('HGETALL', prefix .. 'workers')
    for place = 1, #registered, 2 do
        local worker, is_whole, number, started_at, lease, said = registered[place], pcall(cmsgpack.unpack, registered[place + 1])
        if not is_whole then
            number, started_at, lease, said = 0, 0, 0, ''
        end
        local busy = { held = 0, running = 0 }
        local ids = call('SMEMBERS', prefix .. 'held:' .. worker)
        for _, text in ipairs(each_of('HMGET', prefix .. 'claims', ids)) do
            local claim = read_claim(text)
            if claim then
                busy[claim.state] = busy[claim.state] + 1
            end
        end
        local age = now - (tonumber(call('ZSCORE', prefix .. 'leases', worker) or 0) - lease)
        workers[#workers + 1] = {
            number, said, micros(lease), micros(started_at), micros(age), condemned[worker] and 1 or 0, busy.held,
            busy.running, call('HGET', prefix .. 'vitals', worker), worker,
        }
    end
    table.sort(workers, function(one, other) return one[1] < other[1] end)
    return workers
end
