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


class Load:
    """Counts slots and ends. Prefetches no more than ends within a tenth of a second at the measured rate.

    Ends and not starts: a worker that has just filled its slots with slow jobs has no use for more of them.
    """

    def __init__(self, clock: Clock, concurrency: int, completer: Completer) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._completer = completer
        self._rate = 0.0
        self._ends = 0
        self._since = clock.boot()
        self.running = 0
        self.enough = 0
        """While more than this are due here no others are wanted, as things stood at the last look."""
        self.due: Callable[[], int] = lambda: 0
        self.ahead: Callable[[], int] = lambda: 0

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
        """How many jobs that are not yet due to hold in addition."""
        return max(0, self._concurrency - self.ahead())

    def started(self) -> None:
        """Count a start."""
        self.running += 1

    def ended(self) -> None:
        """Count the end of an attempt."""
        self.running -= 1
        self._ends += 1

    def _measured_rate(self) -> float:
        now = self._clock.boot()
        elapsed = now - self._since
        if elapsed >= WINDOW:
            measured = self._ends / elapsed
            self._rate = max(measured, self._rate + FORGETTING * (measured - self._rate))
            self._ends, self._since = 0, now
        return self._rate
