"""Measurements that ship with Standfast: `standfast bench`."""
