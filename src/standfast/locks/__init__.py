"""Locks and semaphores in the store: named leases with a fencing token, for jobs and for any other code."""

from standfast.locks.lock import Lock

__all__ = ["Lock"]
