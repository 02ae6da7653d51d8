-- uses: base
-- ARGV: time, queue

call('HSETNX', prefix .. 'paused', ARGV[2], micros(now))
