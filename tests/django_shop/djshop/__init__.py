"""A shop on Django whose work is done by Standfast."""
