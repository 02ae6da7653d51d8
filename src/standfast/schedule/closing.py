"""When queues and tasks are closed: nothing of them starts inside a window. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.policy.problems import queue_problems, refuse_any
from standfast.schedule.window import Span, Window

Windows = Window | Sequence[Window]
"""One window, or several."""

_EXAMPLE = 'as in window=Window("03:00", "03:15", tz="Asia/Taipei")'
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
    windows = tuple(window) if isinstance(window, tuple | list) else (window,)
    if not windows or not all(isinstance(each, Window) for each in windows):
        raise ConfigurationError(
            f"{about} {name!r}: window must be a Window, or several in a tuple, {_EXAMPLE}, not {window!r:.80}"
        )
    closing = closing_from(windows, _ANY_MOMENT)
    if closing is not None and closing.end - closing.begin > TOO_LONG:
        raise ConfigurationError(
            f"{about} {name!r}: its windows together leave no time at all, so that nothing would ever run;"
            f" shorten one of them, {_EXAMPLE}"
        )
    return ClosedHours(about, name, windows)


def closing_from(windows: Sequence[Window], moment: datetime) -> Closing | None:
    """Return the closing that is on at a moment, else the next one. Windows that touch or overlap close as one."""
    found = [(span, window) for window in windows if (span := _span_from(window, moment)) is not None]
    if not found:
        return None
    first, window = min(found, key=lambda each: each[0])
    closing = Closing(*first, _ask_at(first, window), window)
    while closing.end - closing.begin <= TOO_LONG:
        longer = [_extended(closing, span, each) for each in windows if (span := each.span_at(closing.end))]
        if not longer:
            break
        closing = max(longer, key=lambda each: each.end)
    return closing


def _span_from(window: Window, moment: datetime) -> Span | None:
    return window.span_at(moment) or window.next_span(moment)


def _extended(closing: Closing, span: Span, window: Window) -> Closing:
    return Closing(closing.begin, span[1], min(closing.ask_at, _ask_at(span, window)), window)


def _ask_at(span: Span, window: Window) -> datetime:
    return span[0] - timedelta(seconds=window.notice)
