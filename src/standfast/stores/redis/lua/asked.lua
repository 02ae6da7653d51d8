-- uses: clock
-- Part: what a claim asks for (ClaimRequest).
--
-- ARGV: time, worker, call, limit, group, max_wait (micros, or empty), look_ahead (micros), ahead_limit,
--   MessagePack of 1 queues (nothing: all), 2 shares, 3 known tasks, each with its version,
--   4 queues that give nothing (nothing: none), 5 tasks that give nothing but what is
--   adopted (nothing: none), 6 by lane the time and how many of that time from which on to look (nothing: the front),
--   7 tasks that the worker does not know, each with its oldest such version (nothing: none)

local worker, call_number, limit, group = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local max_wait, horizon, ahead_limit = tonumber(ARGV[6]), now + tonumber(ARGV[7]), tonumber(ARGV[8])
local asked_queues, shares, adopted, closed, closed_tasks, marks, unknown = unpack(cmsgpack.unpack(ARGV[9]), 1, 7)
