"""Trying again: after which errors, with which pauses, and for how long."""

import time
from random import Random

from standfast.errors import StoreFullError, StoreUnavailableError

PASSING = (StoreUnavailableError, StoreFullError)
"""Errors after which the same call may succeed."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Pauses:
    """The pauses between tries: each about twice as long as the one before, none like anybody else's.

    All who use a store lose it at the same moment: without the jitter they would come back in step, each time.
    """

    def __init__(self, random: Random, longest: float = LONGEST_PAUSE) -> None:
        self._random = random
        self._longest = longest
        self._next = FIRST_PAUSE

    def next(self) -> float:
        """Return for how many seconds to pause now."""
        pause = min(self._next, self._longest)
        self._next = pause * 2
        return pause * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin with short ones again: there was an answer."""
        self._next = FIRST_PAUSE


class Patience:
    """How long to go on trying while the store is away: `seconds` from the first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at: float | None = None
        self._pauses = Pauses(Random())  # noqa: S311 - jitter

    def pause_after(self, error: Exception) -> float:
        """Return for how many seconds to pause before the next try. Raises the error once the time is over."""
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        left = self._ends_at - now
        if left <= 0:
            raise error
        return min(self._pauses.next(), left)

    def reset(self) -> None:
        """Begin anew: there was an answer, and the next failure is another one."""
        self._ends_at = None
        self._pauses.reset()
