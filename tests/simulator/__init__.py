"""A seeded, deterministic world in which the shipped worker and supervisor run and things go wrong.

Nothing here models the claim protocol: the real claimer, timers, completer, heart and supervisor run on one event
loop with virtual time. Only what is behind their ports is virtual: processes, channels, notes, the way to the store
and the clock. `run_seed` plays one world and returns what the checker found; the same seed replays exactly.
"""
