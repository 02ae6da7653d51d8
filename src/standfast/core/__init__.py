"""The pure core: what a job is and what may happen to it. No I/O, no clock, no store."""
