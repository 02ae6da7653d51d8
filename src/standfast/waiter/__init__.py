"""Waiting for jobs, of which one thread hears for all handles of a process."""

from standfast.waiter.waiter import Waiter
from standfast.waiter.watch import Until, Watch, job_not_found

__all__ = ["Until", "Waiter", "Watch", "job_not_found"]
