"""Lock-out on guessing: who fails has to wait, longer each time, and is forgiven after a while. Pure but for time.

Failures are counted for the peer and for the name, and both must be free. What comes while one has to wait is not
even looked at and does not count: so nobody keeps a name locked for longer than `LONGEST_WAIT` at a time. A browser
in which somebody has signed in before has a count of its own: others who guess at the name do not lock it out.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

FREE = 5
"""Failures with one name that cost nothing: fingers slip."""

FREE_OF_PEERS = 20
"""Failures from one address that cost nothing: there may be many people behind it."""

LONGEST_WAIT = 300.0
"""Seconds that anybody has to wait, at most."""

FORGIVEN = 3600.0
"""Seconds without a failure after which all is forgotten."""

MOST_REMEMBERED = 10_000
"""Of more, those who failed longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class Count:
    """Whose failures are counted together: of a peer, of a name, or of a browser that is known."""

    whose: Hashable
    free: int = FREE


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int
    last_at: float


def wait_after(failures: int, free: int = FREE) -> float:
    """Return how many seconds somebody has to wait after so many failures."""
    return 0.0 if failures < free else min(LONGEST_WAIT, 2.0 ** min(failures - free, 60))


class Guesses:
    """Counts failures. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[Count, _Failures] = OrderedDict()

    def begin(self, whose: Sequence[Count]) -> float:
        """Return how many seconds one has to wait; if 0, count a failure, until one of those below.

        It is counted first: of many attempts at the same moment no more get through than one after the other.
        """
        with self._lock:
            now = self._clock()
            wait = max((self._wait(each, now) for each in whose), default=0.0)
            if wait <= 0:
                for each in whose:
                    self._failures[each] = _Failures(self._count(each, now) + 1, now)
                    self._failures.move_to_end(each)
                while len(self._failures) > MOST_REMEMBERED:
                    self._failures.popitem(last=False)
            return wait

    def forget(self, whose: Count) -> None:
        """Forget all failures: it was who they said."""
        with self._lock:
            self._failures.pop(whose, None)

    def take_back(self, whose: Sequence[Count]) -> None:
        """Take back the failure that `begin` has counted, and leave those before it."""
        with self._lock:
            for each in whose:
                failures = self._failures.get(each)
                if failures is not None:
                    self._failures[each] = _Failures(failures.count - 1, failures.last_at)

    def _wait(self, whose: Count, now: float) -> float:
        count = self._count(whose, now)
        return wait_after(count, whose.free) - (now - self._failures[whose].last_at) if count else 0.0

    def _count(self, whose: Count, now: float) -> int:
        failures = self._failures.get(whose)
        return 0 if failures is None or now - failures.last_at >= FORGIVEN else failures.count

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._failures)
