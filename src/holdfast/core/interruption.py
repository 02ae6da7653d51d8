"""What ends an attempt from within. Neither is an `Exception`: no handler's `except Exception` can swallow it."""

from datetime import timedelta


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


def suspension_in(error: BaseException) -> Suspended | None:
    """Return the suspension that an exception is, or that a group of tasks has made of it; None for any other."""
    if isinstance(error, Suspended):
        return error
    if not isinstance(error, BaseExceptionGroup) or error.split(Suspended)[1] is not None:
        return None
    return suspension_in(error.exceptions[0])
