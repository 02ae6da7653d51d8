-- uses: recording
-- ARGV: time, kind, MessagePack of names. Returns those that exist: name, what is stored of it, one after the other.

return records_of(ARGV[2], cmsgpack.unpack(ARGV[3]))
