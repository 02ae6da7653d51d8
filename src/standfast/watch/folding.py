"""Many events of one kind told in few lines: the first ones as they come, the others by their number.

    first three of a kind ─► told        the others ─► counted ─► one line when the period ends

A kind that goes on has a line per period; one that was quiet for a period begins anew. Pure: the clock is given.
"""

from dataclasses import dataclass

from standfast import events
from standfast.clock import Clock
from standfast.core.states import Reason

PERIOD = 10.0
"""Seconds between two lines about the same kind."""

AT_ONCE = 3
"""So many of a kind are told as they come."""

_OUR_REASONS = frozenset(reason.value for reason in Reason)

Kind = tuple[type[events.Event], str, str]
"""Events that say the same: of one class and one task, for the same cause."""


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
        """Return what was counted in the periods that are over; those that go on have new ones."""
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
