"""Many events of one kind told in few lines: the first ones as they come, the others by their number.

    first three of a kind ─► told        the others ─► counted ─► one line when the window ends

A kind that goes on has a line per window; one that was quiet for a window begins anew. Pure: the clock is given.
"""

from dataclasses import dataclass

from holdfast import events
from holdfast.clock import Clock
from holdfast.core.states import Reason

WINDOW = 10.0
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
class _Window:
    began: float
    told: int = 0
    count: int = 0
    last: events.JobEvent | None = None


class Folding:
    """Decides which events are told one by one, and counts the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[Kind, _Window] = {}

    def tells(self, event: events.JobEvent) -> bool:
        """Return whether this one is to be told now; if not, it is counted."""
        kind = type(event), event.task, cause_of(event)
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(self._clock.boot())
        if window.told < AT_ONCE:
            window.told += 1
            return True
        window.count += 1
        window.last = event
        return False

    def due(self) -> list[Folded]:
        """Return what was counted in the windows that are over; those that go on have new ones."""
        now = self._clock.boot()
        over = [(kind, window) for kind, window in self._windows.items() if now - window.began >= WINDOW]
        told = []
        for kind, window in over:
            if window.last is None:
                del self._windows[kind]
            else:
                told.append(_folded(kind, window, window.last, now))
                self._windows[kind] = _Window(now, told=AT_ONCE)
        return told

    def rest(self) -> list[Folded]:
        """Return all that was counted and not told yet, and begin anew."""
        windows, self._windows = self._windows, {}
        now = self._clock.boot()
        return [_folded(kind, window, window.last, now) for kind, window in windows.items() if window.last]


def _folded(kind: Kind, window: _Window, last: events.JobEvent, now: float) -> Folded:
    return Folded(last, kind[2], window.count, now - window.began)


def cause_of(event: events.JobEvent) -> str:
    """Return what tells two events of one class and task apart: the type of the error, or the reason."""
    if isinstance(event, events.JobRetrying | events.JobDied):
        return event.failure.type
    if isinstance(event, events.JobCancelled | events.JobBlocked) and event.reason in _OUR_REASONS:
        return event.reason
    return ""  # a handler's own words may differ from job to job
