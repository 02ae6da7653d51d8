-- uses: base
-- ARGV: time, MessagePack of workers. Marks those dead whose lease has run out; returns the marked ones.

local workers, marked = cmsgpack.unpack(ARGV[2]), {}
for _, worker in ipairs(workers) do
    local ends_at = tonumber(call('ZSCORE', prefix .. 'leases', worker) or nil)
    if ends_at and (ends_at < now or call('SISMEMBER', prefix .. 'condemned', worker) == 1) then
        call('SREM', prefix .. 'condemned', worker) -- a full server accepts this, and with it the next one
        call('SADD', prefix .. 'condemned', worker)
        marked[#marked + 1] = worker
    end
end
return marked
