"""How much this worker has in hand and how much more it should fetch."""

from collections.abc import Callable

from holdfast.clock import Clock
from holdfast.worker.completer import Completer

HORIZON = 0.1
"""Seconds of work, at the measured rate of ends, that may wait in hand."""

WINDOW = 0.02
"""Seconds over which the rate is measured."""

FORGETTING = 0.2
"""How much of a higher rate is forgotten in each window with a lower one."""

LASTS = 1.0
"""Seconds that a job is expected to last, until one has ended."""

SHORTEST = 0.001
"""Seconds that it is expected to last at least."""

LEARNING = 0.1
"""How much each job that ends tells about the next ones."""

MOST_AHEAD = 500
"""Jobs at most that are held for later, unless more can run at a time."""


class Load:
    """Counts slots and ends. Prefetches no more than ends within a tenth of a second at the measured rate.

    Ends and not starts: a worker that has just filled its slots with slow jobs has no use for more of them.
    """

    def __init__(self, clock: Clock, concurrency: int, completer: Completer, look_ahead: float) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._completer = completer
        self._look_ahead = look_ahead
        self._rate = 0.0
        self._ends = 0
        self._since = clock.boot()
        self.lasts: float | None = None
        """Seconds that a job lasts, as those that ended of late did."""
        self._most = self._limit = max(MOST_AHEAD, concurrency)
        self.running = 0
        self.enough = 0
        """While more than this are due here no others are wanted, as things stood at the last look."""
        self.due: Callable[[], int] = lambda: 0
        self.ahead: Callable[[], int] = lambda: 0
        self.soon: Callable[[], int] = lambda: 0

    def free_slots(self) -> int:
        """How many more attempts may start now."""
        return self._concurrency - self.running

    @property
    def wanted(self) -> int:
        """How many due jobs to fetch now; 0 while there is enough in hand."""
        if self._completer.crowded:
            return 0
        prefetch = int(self._measured_rate() * HORIZON)
        waiting, self.enough = self.due(), prefetch // 2
        if waiting and waiting > self.enough:
            return 0
        return max(0, self.free_slots() + prefetch - waiting)

    @property
    def wanted_ahead(self) -> int:
        """How many jobs that are not yet due to hold in addition: as many as find a place here at their time."""
        return max(0, self._most_ahead() - self.ahead())

    @property
    def wanted_together(self) -> int:
        """How many of them to hold in addition if all that are held might be due at the same time."""
        return max(0, min(self.free_slots() - self.ahead(), self.wanted_ahead))

    @property
    def wanted_soon(self) -> int:
        """How many of them to hold in addition if they are due soon."""
        return max(0, min(self.free_slots() - self.soon(), self.wanted_ahead))

    def last_at_least(self, seconds: float) -> None:
        """Take note that jobs which run have no end for so long."""
        self.lasts = seconds if self.lasts is None else max(self.lasts, seconds)

    def too_many_ahead(self, kept: int) -> None:
        """Take note that no more than so many of them will find a place."""
        self._most = max(kept, self._concurrency)

    def not_too_many_ahead(self) -> None:
        """Take note that all of them will find a place: there might be room for more."""
        self._most = min(2 * self._most, self._limit)

    def started(self) -> None:
        """Count a start."""
        self.running += 1

    def ended(self, started_boot: float) -> None:
        """Count the end of an attempt, whose handler started at this time, or never did (0)."""
        self.running -= 1
        self._ends += 1
        if started_boot:
            lasted = self._clock.boot() - started_boot
            self.lasts = lasted if self.lasts is None else self.lasts + LEARNING * (lasted - self.lasts)

    def _most_ahead(self) -> int:
        times = self._look_ahead / (LASTS if self.lasts is None else max(self.lasts, SHORTEST))
        return min(int(self.free_slots() * max(times, 1.0) + self.running * times), self._most)

    def _measured_rate(self) -> float:
        now = self._clock.boot()
        elapsed = now - self._since
        if elapsed >= WINDOW:
            measured = self._ends / elapsed
            self._rate = max(measured, self._rate + FORGETTING * (measured - self._rate))
            self._ends, self._since = 0, now
        return self._rate
