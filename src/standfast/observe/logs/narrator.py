"""Decides which events a log tells: one by one, folded with others of their kind, or summed up.

    below the level ─► not wanted, but completions are counted for the summaries at INFO
    of a job        ─► the first three of a kind told, the others counted ─► one line when the period ends
    any other       ─► told

At DEBUG every event is told. What is not wanted is not even made: jobs run at full speed beside this.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from standfast import events
from standfast.model.clock import Clock
from standfast.model.states import Reason
from standfast.observe.logs.levels import Level, level_in, level_of

PERIOD = 10.0  # seconds between two lines about the same kind
AT_ONCE = 3  # so many of a kind are told as they come
EVERY = 10.0  # seconds between two summaries
_OUR_REASONS = frozenset(reason.value for reason in Reason)

Kind = tuple[type[events.Event], str, str]  # of events that say the same: class, task and cause


class Folded(events.Event, frozen=True):
    """So many more events like `last`, within so many seconds. `cause` is an error's type or a reason, if any."""

    last: events.JobEvent
    cause: str
    count: int
    seconds: float


@dataclass(slots=True)
class _Period:
    began: float
    told: int = 0
    count: int = 0
    last: events.JobEvent | None = None


class Folding:
    """Decides which events are told one by one, and counts the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._periods: dict[Kind, _Period] = {}

    def tells(self, event: events.JobEvent) -> bool:
        """Return whether this one is to be told now; if not, it is counted."""
        kind = type(event), event.task, cause_of(event)
        period = self._periods.get(kind)
        if period is None:
            period = self._periods[kind] = _Period(self._clock.boot())
        if period.told < AT_ONCE:
            period.told += 1
            return True
        period.count += 1
        period.last = event
        return False

    def due(self) -> list[Folded]:
        """Return what was counted in the periods that are over. A kind that was quiet for a period begins anew."""
        now = self._clock.boot()
        over = [(kind, period) for kind, period in self._periods.items() if now - period.began >= PERIOD]
        told = []
        for kind, period in over:
            if period.last is None:
                del self._periods[kind]
            else:
                told.append(_folded(kind, period, period.last, now))
                self._periods[kind] = _Period(now, told=AT_ONCE)
        return told

    def rest(self) -> list[Folded]:
        """Return all that was counted and not told yet, and begin anew."""
        periods, self._periods = self._periods, {}
        now = self._clock.boot()
        return [_folded(kind, period, period.last, now) for kind, period in periods.items() if period.last]


def _folded(kind: Kind, period: _Period, last: events.JobEvent, now: float) -> Folded:
    return Folded(last, kind[2], period.count, now - period.began)


def cause_of(event: events.JobEvent) -> str:
    """Return what tells two events of one class and task apart: the type of the error, or the reason."""
    if isinstance(event, events.JobRetrying | events.JobDied):
        return event.failure.type
    if isinstance(event, events.JobCancelled | events.JobBlocked) and event.reason in _OUR_REASONS:
        return event.reason
    return ""  # a handler's own words may differ from job to job


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


class _Completions:
    """What went well: the first completion of each task is told, the others are summed up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: set[str] = set()
        self._began: float | None = None
        self._completed: Counter[str] = Counter()
        self._failed = 0

    def count(self, event: events.JobCompleted) -> FirstCompletion | None:
        """Count a completion, or return it if it is the first of its task."""
        task = event.task
        if task not in self._seen:
            self._seen.add(task)
            return FirstCompletion(event, hint=len(self._seen) == 1)
        if self._began is None:
            self._began = self._clock.boot()
        self._completed[task] += 1
        return None

    def count_failure(self) -> None:
        """Count a run that failed; it is told elsewhere."""
        if self._began is None:
            self._began = self._clock.boot()
        self._failed += 1

    def rest(self, least: float = 0.0) -> list[Summary]:
        """Return what completed since the last summary, if that is so many seconds ago, and begin anew."""
        now, began, tasks, failed = self._clock.boot(), self._began, self._completed, self._failed
        if began is None or now - began < least:
            return []
        self._began, self._completed, self._failed = None, Counter(), 0
        return [Summary(dict(tasks.most_common()), failed, now - began)] if tasks else []


class Narrator:
    """A subscriber that tells events by `tell`. `tick` is called now and again, `finish` at the end."""

    def __init__(self, level: Level, tell: Callable[[events.Event, Level], object], clock: Clock) -> None:
        self._level = level
        self._tell = tell
        self._folding = Folding(clock) if level > Level.DEBUG else None
        self._completions = _Completions(clock) if level == Level.INFO else None
        self._counting = threading.Lock()  # events and ticks come from two threads

    def wants(self, kind: type[events.Event]) -> bool:
        """Tell whether events of this kind are told, or at least counted."""
        return level_of(kind) >= self._level or (kind is events.JobCompleted and self._completions is not None)

    def __call__(self, event: events.Event) -> None:
        """Tell the event, or count it."""
        if self._completions is not None and isinstance(event, events.JobCompleted):
            with self._counting:
                first = self._completions.count(event)
            if first is not None:
                self._tell(first, Level.INFO)
        elif self._folding is not None and isinstance(event, events.JobEvent):
            with self._counting:
                is_told = self._folding.tells(event)
                if self._completions is not None and isinstance(event, events.JobRetrying | events.JobDied):
                    self._completions.count_failure()
            if is_told:
                self._tell(event, level_of(type(event)))
        elif (level := level_in(event)) >= self._level:
            self._tell(event, level)

    def tick(self) -> None:
        """Tell what was counted, where it is time to."""
        with self._counting:
            folded = self._folding.due() if self._folding else []
            summaries = self._completions.rest(EVERY) if self._completions else []
        self._tell_counted(folded, summaries)

    def finish(self) -> None:
        """Tell all that was counted."""
        with self._counting:
            folded = self._folding.rest() if self._folding else []
            summaries = self._completions.rest() if self._completions else []
        self._tell_counted(folded, summaries)

    def _tell_counted(self, folded: list[Folded], summaries: list[Summary]) -> None:
        for each in folded:
            self._tell(each, level_of(type(each.last)))
        for summary in summaries:
            self._tell(summary, Level.INFO)
