"""When worker processes are replaced by fresh ones, and when they must not be, as an app declares it. Pure."""

from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.schedule.closing import TOO_LONG, closing_from
from standfast.schedule.rule import Ground
from standfast.schedule.rules import AnyRule
from standfast.schedule.window import Window

_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
_EXAMPLE = 'as in app.recycle(at=Cron("30 4 * * *"), never=Window("08:00", "20:00"))'


class RecycleRules(msgspec.Struct, frozen=True):
    """`at`: the times by which each process has to be replaced; `never`: windows in which none is."""

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
        raise ConfigurationError(f"recycle: at must be a rule such as Cron, {_EXAMPLE}, not {at!r:.80}")
    windows = tuple(never) if isinstance(never, tuple | list) else (never,)
    if not all(isinstance(each, Window) for each in windows):
        raise ConfigurationError(
            f"recycle: never must be a Window, or several in a tuple, {_EXAMPLE}, not {never!r:.80}"
        )
    closing = closing_from(windows, _ANY_MOMENT)
    if closing is not None and closing.end - closing.begin > TOO_LONG:
        raise ConfigurationError(f"recycle: never leaves no time at all; shorten one of its windows, {_EXAMPLE}")
    return RecycleRules(at, windows)
