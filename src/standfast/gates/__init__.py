"""How many jobs run at a time in one process: limits, peak hours, and one that gives way to requests."""
