"""What a handler may return or raise to say how its attempt ended; no `except Exception` catches what it raises.

Each is an exception, so that `raise Snooze(60)` works from any depth, and a plain value, so that
`return Snooze(60)` works too. Returning anything else is success with that result. None is an `Exception`: code in
between that catches those, to log them or to try again, would make a success of a `Retry`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from standfast.model.suggestions import options_checked


class Outcome(BaseException):
    """How an attempt ended, said by the handler itself."""


@dataclass(eq=False)
class Success(Outcome):
    """Done; `result` is stored."""

    result: Any = None


@options_checked
@dataclass(eq=False)
class Retry(Outcome):
    """Failed, charge an attempt and try again: after `delay`, or as the task's backoff says."""

    reason: str = "asked to retry"
    delay: timedelta | float | None = None


@options_checked
@dataclass(eq=False)
class Snooze(Outcome):
    """Not now: run again after `delay`, nothing charged."""

    delay: timedelta | float


@dataclass(eq=False)
class Discard(Outcome):
    """Not worth doing: end as cancelled(discarded), no dead letter."""

    reason: str = ""


@dataclass(eq=False)
class Cancel(Outcome):
    """End as cancelled with this reason."""

    reason: str = "cancelled by its handler"


@dataclass(eq=False)
class Fail(Outcome):
    """Failed for good: dead at once, whatever attempts are left."""

    reason: str = "failed by its handler"


E = TypeVar("E", bound=BaseException)


class Interrupted(BaseException):
    """The attempt should end now: its job was cancelled or lost, its worker stops, or a window is about to begin.

    The worker knows which of them it was and ends the attempt accordingly.
    """


class Suspended(BaseException):
    """The attempt ends here and gives its slot back, nothing charged: its job waits, and then runs from its top.

    `ctx.sleep_until` and `ctx.wait_for` raise it. A handler that catches it gets no further.
    """

    def __init__(self, delay: timedelta, reason: str) -> None:
        super().__init__(delay, reason)
        self.delay = delay
        self.reason = reason


def meant_by(error: BaseException, kind: type[E]) -> E | None:
    """Return the exception of a kind that this is, or of which a group of tasks has made this; else None."""
    if isinstance(error, kind):
        return error
    if not isinstance(error, BaseExceptionGroup) or error.split(kind)[1] is not None:
        return None
    return meant_by(error.exceptions[0], kind)
