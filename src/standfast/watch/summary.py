"""What went well, summed up: the first completion of each task as it comes, then a line now and again. Pure."""

from collections import Counter
from collections.abc import Mapping

from standfast import events
from standfast.clock import Clock

EVERY = 10.0
"""Seconds between two summaries."""


class FirstCompletion(events.Event, frozen=True):
    """The first job of its task that completed here. `hint`: say how to see the others."""

    event: events.JobCompleted
    hint: bool


class Summary(events.Event, frozen=True):
    """What else was done in so many seconds: completions by task, and how many runs failed."""

    tasks: Mapping[str, int]
    failed: int
    seconds: float

    @property
    def completed(self) -> int:
        """How many jobs completed, those that were told one by one left out."""
        return sum(self.tasks.values())


class Tally:
    """Counts between two summaries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: set[str] = set()
        self._began: float | None = None
        self._completed: Counter[str] = Counter()
        self._failed = 0

    def completed(self, event: events.JobCompleted) -> FirstCompletion | None:
        """Count a completion, or return it if it is the first of its task."""
        task = event.task
        if task not in self._seen:
            self._seen.add(task)
            return FirstCompletion(event, hint=len(self._seen) == 1)
        if self._began is None:
            self._began = self._clock.boot()
        self._completed[task] += 1
        return None

    def failed(self) -> None:
        """Count a run that failed; it is told elsewhere."""
        if self._began is None:
            self._began = self._clock.boot()
        self._failed += 1

    def due(self) -> Summary | None:
        """Return the summary if it is time for one."""
        if self._began is None or self._clock.boot() - self._began < EVERY:
            return None
        return self.rest()

    def rest(self) -> Summary | None:
        """Return what was counted since the last summary, if anything completed, and begin anew."""
        began, tasks, failed = self._began, self._completed, self._failed
        self._began, self._completed, self._failed = None, Counter(), 0
        if began is None or not tasks:
            return None
        return Summary(dict(tasks.most_common()), failed, self._clock.boot() - began)
