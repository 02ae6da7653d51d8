"""From where on the lanes of a claim are to be looked at, where tasks are closed.

One script looks at a thousand jobs of each lane, and nobody else is served meanwhile. Where all of these are of
closed tasks, the claim goes on behind them with another script, and the next claim begins there: what arrives is
behind, too. What comes back to its old place is not: so each claim looks at the front of the lanes first, and from
time to time everything is looked at again, the less often the longer that takes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from standfast.store.protocol import ClaimRequest

Marks = dict[str, tuple[int, int]]
"""By the key of a lane: a time, and how many jobs of that time, before which all were passed over."""

AT_ONCE = 20
"""Scripts of one claim, at most. What is left is for the next one, soon."""

SWEEP_EVERY = 15.0
SHARE = 0.05
"""Seconds after which everything is looked at again, at least; and which part of the time may go into that."""

_MOST = 100
"""So many sets of closed tasks are remembered."""


class Passing:
    """What one process remembers of the jobs that its claims passed over. Any of it may be forgotten."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._marks: dict[tuple[str, ...], Marks] = {}
        self._swept_at = monotonic()
        self._took = 0.0

    def marks(self, request: ClaimRequest) -> Marks:
        """Return the marks for a claim, in which it notes what it learns."""
        now = self._monotonic()
        if now - self._swept_at >= max(SWEEP_EVERY, self._took / SHARE) or len(self._marks) >= _MOST:
            self._marks.clear()
            self._swept_at, self._took = now, 0.0
        return self._marks.setdefault(request.closed_tasks, {})

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Note how long a claim looks behind the front."""
        began = self._monotonic()
        yield
        self._took += self._monotonic() - began
