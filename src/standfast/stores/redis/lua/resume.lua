-- uses: base, bell
-- ARGV: time, queue

if call('HDEL', prefix .. 'paused', ARGV[2]) == 1 then
    ring('work')
end
