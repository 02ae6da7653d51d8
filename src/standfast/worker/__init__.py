"""The child process: it claims, waits, runs and completes. Its parent, the supervisor, beats for it.

claimer ──► timers ──► attempt (running) ──► completer
"""
