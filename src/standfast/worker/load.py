"""How much this worker has in hand and how much more it should fetch."""

from standfast.clock import Clock
from standfast.settings import Settings
from standfast.worker.booking import outlasts
from standfast.worker.completer import Completer
from standfast.worker.slots import Slots
from standfast.worker.timers import Timers

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
    """Counts ends. Prefetches no more than ends within a tenth of a second at the measured rate.

    Ends and not starts: a worker that has just filled its slots with slow jobs has no use for more of them.
    """

    def __init__(
        self, clock: Clock, slots: Slots, timers: Timers, completer: Completer, settings: Settings
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._timers = timers
        self._completer = completer
        self._settings = settings
        self._rate = 0.0
        self._ends = 0
        self.ended_so_far = 0
        """How many attempts have ended."""
        self._since = clock.boot()
        self.lasts: float | None = None
        """Seconds that a job lasts, as those that ended of late did."""
        self._most = self._limit = max(MOST_AHEAD, settings.concurrency)
        self.enough = 0
        """While more than this are due here no others are wanted, as things stood at the last look."""

    @property
    def wanted(self) -> int:
        """How many due jobs to fetch now; 0 while there is enough in hand."""
        if self._completer.crowded:
            return 0
        prefetch = int(self._measured_rate() * HORIZON)
        waiting, self.enough = self._timers.due, prefetch // 2
        if waiting and waiting > self.enough:
            return 0
        return max(0, self._slots.free + prefetch - waiting)

    @property
    def wanted_ahead(self) -> int:
        """How many jobs that are not yet due to hold in addition: as many as find a place here at their time."""
        return max(0, self._most_ahead() - self._timers.ahead)

    @property
    def wanted_together(self) -> int:
        """How many of them to hold in addition if all that are held might be due at the same time."""
        return max(0, min(self._slots.free - self._timers.ahead, self.wanted_ahead))

    @property
    def wanted_soon(self) -> int:
        """How many of them to hold in addition if they are due soon."""
        soon = self._timers.due_within(self._settings.safety_poll)
        return max(0, min(self._slots.free - soon, self.wanted_ahead))

    def overbooked(self) -> None:
        """Take note that due jobs waited in vain for those that run, which are half through, as a rule."""
        boot = self._clock.boot()
        ages = [age for age in self._slots.ages(boot) if age]
        if ages:
            self.lasts = max(self.lasts or 0.0, 2 * sum(ages) / len(ages))

    def too_many_ahead(self) -> None:
        """Take note that some had to go back, and only those that are still held will find a place."""
        self._most = max(self._timers.ahead, self._settings.concurrency)

    def not_too_many_ahead(self) -> None:
        """Take note that all of them will find a place: there might be room for more."""
        self._most = min(2 * self._most, self._limit)

    def ended(self, lasted: float | None) -> None:
        """Count the end of an attempt, whose handler ran for so many seconds, or never started (None)."""
        self._ends += 1
        self.ended_so_far += 1
        if lasted is not None:
            self.lasts = lasted if self.lasts is None else self.lasts + LEARNING * (lasted - self.lasts)

    def _most_ahead(self) -> int:
        look_ahead, lasts = self._settings.look_ahead, LASTS if self.lasts is None else max(self.lasts, SHORTEST)
        places = self._slots.free * max(look_ahead / lasts, 1.0)
        if places < self._most:
            outlasted = outlasts(self._slots.ages(self._clock.boot()), lasts)
            places += sum(look_ahead - more for more in outlasted if more < look_ahead) / lasts
        return min(int(places), self._most)

    def _measured_rate(self) -> float:
        now = self._clock.boot()
        elapsed = now - self._since
        if elapsed >= WINDOW:
            measured = self._ends / elapsed
            self._rate = max(measured, self._rate + FORGETTING * (measured - self._rate))
            self._ends, self._since = 0, now
        return self._rate
