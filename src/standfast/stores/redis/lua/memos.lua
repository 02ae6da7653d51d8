-- uses: remembering
-- ARGV: time, id. Returns the memos of a job: name, what is stored of it, one after the other.

return call('HGETALL', memo_key(ARGV[2]))
