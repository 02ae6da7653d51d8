-- uses: recording
-- ARGV: time, kind, MessagePack of names. Returns those that exist: name, what is stored of it, one after the other.

local kind, names = ARGV[2], cmsgpack.unpack(ARGV[3])
return records_of(kind, names)
