"""What ends an attempt from within. Neither is an `Exception`: no handler's `except Exception` can swallow it."""

from datetime import timedelta
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class Interrupted(BaseException):
    """The attempt should end now: its job was cancelled or lost, its worker stops, or a window is about to begin.

    The worker knows which of them it was and ends the attempt accordingly.
    """


class Suspended(BaseException):
    """The attempt ends here and gives its slot back, nothing charged: its job waits, and then runs from its top.

    `ctx.sleep_until` and `ctx.wait_for` raise it. A handler that catches it gets no further: see durable.gate.
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
