"""When queues and tasks are closed: nothing of them starts inside a window. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.records import Change, Kind, Record, forgetting, read_body, writing
from standfast.model.validation import queue_problems, refuse_any
from standfast.schedules.description import describe_window
from standfast.schedules.rules import AnyRule, Ground
from standfast.schedules.windows import Span, Window

Windows = Window | Sequence[Window]
"""One window, or several."""

_WINDOW_EXAMPLE = 'as in window=Window("03:00", "03:15", tz="Asia/Taipei")'
_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
TOO_LONG = timedelta(days=2 * 366)
"""Windows recur within a year: what is closed for longer never opens."""


class About(StrEnum):
    """What is closed."""

    QUEUE = "queue"
    TASK = "task"


class Closing(msgspec.Struct, frozen=True):
    """A span in which nothing starts; what runs is asked to finish at `ask_at`. `window` ends last of it."""

    begin: datetime
    end: datetime
    ask_at: datetime
    window: Window


class ClosedHours(msgspec.Struct, frozen=True):
    """The windows of a queue or a task."""

    about: About
    name: str
    windows: tuple[Window, ...]

    def closing_from(self, moment: datetime) -> Closing | None:
        """Return the closing that is on at a moment, else the next one, if there is any."""
        return closing_from(self.windows, moment)

    def closed_at(self, moment: datetime) -> Closing | None:
        """Return the closing that is on at a moment, if one is."""
        closing = self.closing_from(moment)
        return closing if closing is not None and closing.begin <= moment else None


def declare_hours(about: About, name: Any, window: Any) -> ClosedHours:
    """Return checked hours. Raises ConfigurationError."""
    if about is About.QUEUE:
        refuse_any(queue_problems(name))
    return ClosedHours(about, name, _checked(f"{about} {name!r}: window", window or None, _WINDOW_EXAMPLE))


def _checked(what: str, given: Any, example: str) -> tuple[Window, ...]:
    """Return one window or several. Raises ConfigurationError for what is none, and if they leave no time."""
    windows = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not all(isinstance(each, Window) for each in windows):
        raise ConfigurationError(f"{what} must be a Window, or several in a tuple, {example}, not {given!r:.80}")
    closing = closing_from(windows, _ANY_MOMENT)
    if closing is not None and closing.end - closing.begin > TOO_LONG:
        raise ConfigurationError(f"{what}: together they leave no time at all; shorten one of them, {example}")
    return windows


def closing_from(windows: Sequence[Window], moment: datetime) -> Closing | None:
    """Return the closing that is on at a moment, else the next one. Windows that touch or overlap close as one."""
    found = [(span, window) for window in windows if (span := window.span_at(moment) or window.next_span(moment))]
    if not found:
        return None
    first, window = min(found, key=lambda each: each[0])
    closing = Closing(*first, _ask_at(first, window), window)
    while closing.end - closing.begin <= TOO_LONG:
        touching = [(span, each) for each in windows if (span := each.span_at(closing.end))]
        if not touching:
            break
        span, window = max(touching, key=lambda each: each[0][1])
        closing = Closing(closing.begin, span[1], min(closing.ask_at, _ask_at(span, window)), window)
    return closing


def _ask_at(span: Span, window: Window) -> datetime:
    return span[0] - timedelta(seconds=window.notice)


# The records of windows, one for each queue or task that has some. They are for people: workers go by their code.


@dataclass(frozen=True, slots=True)
class WindowChange:
    """What is to become of the windows of a queue or a task: they are `added`, `changed` or `retired`."""

    what: str
    about: str
    name: str
    words: str
    change: Change


def read_windows(records: Iterable[Record]) -> tuple[ClosedHours, ...]:
    """Return the windows of records. What only a newer release can read is left out."""
    return tuple(hours for record in records if (hours := read_body(record, ClosedHours)) is not None)


def window_changes(app: str, declared: Sequence[ClosedHours], records: Iterable[Record]) -> list[WindowChange]:
    """Return what has to change for the store to tell of the windows that an app declares, and of no others."""
    known = {record.name: record for record in records if record.name.partition("@")[2] == app}
    wanted = {f"{hours.about}:{hours.name}@{app}": hours for hours in declared}
    changes = []
    for name in {**wanted, **known}:
        record, hours = known.get(name), wanted.get(name)
        if record is None or hours is None or record.body != msgspec.json.encode(hours):
            what = "retired" if hours is None else "added" if record is None else "changed"
            change = (
                forgetting(record) if record and not hours else writing(Kind.WINDOW, name, hours, before=record)
            )
            about, _, rest = name.partition(":")
            words = (
                "none any more"
                if hours is None
                else "; ".join(str(describe_window(window)) for window in hours.windows)
            )
            changes.append(WindowChange(what, about, rest.partition("@")[0], words, change))
    return changes


_RECYCLE_EXAMPLE = 'as in app.recycle(at=Cron("30 4 * * *"), never=Window("08:00", "20:00"))'


class RecycleRules(msgspec.Struct, frozen=True):
    """When worker processes are replaced: by the times `at`, and never inside the windows `never`."""

    at: AnyRule | None = None
    never: tuple[Window, ...] = ()

    def due(self, since: datetime, now: datetime) -> bool:
        """Tell whether one of the times came after a process was started and has passed."""
        if self.at is None:
            return False
        times = self.at.times_after(since, Ground("recycle", since))
        return any(not self.at.excluded(time) for time in takewhile(lambda time: time <= now, times))

    def forbidden_until(self, now: datetime) -> datetime | None:
        """Return when the window ends that is on now, if one is."""
        closing = closing_from(self.never, now)
        return closing.end if closing is not None and closing.begin <= now else None


NO_RULES = RecycleRules()
"""No time of its own, and no window."""


def declare_recycling(at: Any, never: Any) -> RecycleRules:
    """Return checked rules. Raises ConfigurationError."""
    if at is not None and not isinstance(at, AnyRule):
        raise ConfigurationError(f"recycle: at must be a rule such as Cron, {_RECYCLE_EXAMPLE}, not {at!r:.80}")
    return RecycleRules(at, _checked("recycle: never", never, _RECYCLE_EXAMPLE))
