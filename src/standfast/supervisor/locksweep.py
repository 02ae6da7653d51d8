"""Forgets locks that nobody has used for long: an app may make up a name for each of its customers."""

from standfast.clock import Clock
from standfast.locks.errands import forget_unused
from standfast.store.errand import arun_errand
from standfast.worker.storecalls import StoreCalls

BITE = 500
"""Locks that are forgotten in one call."""

ROUND_EVERY = 3600.0
"""Seconds between two looks at all locks, unless there was more to forget than one bite."""


class LockSweep:
    """One supervisor of all does it."""

    def __init__(self, calls: StoreCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._next_at = clock.boot() + ROUND_EVERY

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return self._clock.boot() >= self._next_at

    async def bite(self) -> None:
        """Forget the first of those that there are."""
        if await arun_errand(self._calls.once, forget_unused(self._calls.verbs, BITE)) < BITE:
            self._next_at = self._clock.boot() + ROUND_EVERY
