"""A step is tried, and tried again as its policy says, within one run of its handler."""

from collections.abc import Awaitable, Callable
from itertools import count

from standfast.core.interruption import Interrupted
from standfast.durable.plan import Plan, note_misspelt
from standfast.durable.port import Port
from standfast.durable.ways import Way
from standfast.errors import ConfigurationError, LostClaimError, StepError

NAP = 0.05
"""Seconds until a wait between two tries looks again whether the attempt is to end."""

FOR_GOOD = (StepError, LostClaimError, ConfigurationError)
"""What would be the same the next time."""


async def tried(
    way: Way,
    plan: Plan,
    port: Port,
    once: Callable[[Way], Awaitable[bytes]],
    recorded: Callable[[Way], Awaitable[bytes | None]],
) -> bytes:
    """Return what a step is remembered by, after as many tries as it takes and may have.

    `recorded` tells, after a try that failed, whether the store has its result all the same.
    """
    for tries in count(1):
        try:
            return await once(way)
        except FOR_GOOD:
            raise
        except Exception as error:
            note_misspelt(plan, error)
            if port.cancelled and isinstance(error.__cause__, Interrupted):  # not its timeout: all is to end
                raise Interrupted from error
            wait = plan.retries.wait_after(tries, error, port.random)
            if wait is None:
                raise
            if (body := await recorded(way)) is not None:
                return body
            plan.log.warning(
                "step %r failed on try %d of %d, and is tried again in %.3g s: %s: %s",
                plan.name,
                tries,
                plan.retries.attempts,
                wait.total_seconds(),
                type(error).__name__,
                error,
            )
        await _pause(way, wait.total_seconds() if port.takes_pauses else 0.0, port)
    raise AssertionError("counting ends nowhere")


async def _pause(way: Way, seconds: float, port: Port) -> None:
    """Wait, unless the attempt is to end: then it ends here."""
    left = seconds
    while True:
        if port.cancelled:
            raise Interrupted
        if left <= 0:
            return
        await way.nap(min(left, NAP))
        left -= NAP
