"""Watching: what happens and why, in words for people. Reads and listens; changes nothing."""
