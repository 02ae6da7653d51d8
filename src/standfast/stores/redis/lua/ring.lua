-- uses: bell
-- Rings for one who has no other script to do it in. ARGV: time, tone.

ring(ARGV[2])
