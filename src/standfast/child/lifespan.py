"""What an app sets up in each worker process before its first job, and tears down after its last."""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import suppress

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.hooks import name_of

log = logging.getLogger(__name__)

LEFT_WITHIN = 5.0
"""Seconds for all lifespans together to tear down: whatever has not ended then ends with the process."""

Entered = tuple[str, AsyncIterator[None]]


async def enter_lifespans(app: Standfast) -> list[Entered]:
    """Set up, in the order of declaration. Raises ConfigurationError, after tearing down, where one cannot."""
    entered: list[Entered] = []
    for lifespan in app.lifespans:
        name, running = name_of(lifespan), lifespan(app)
        try:
            await anext(running)
        except (Exception, SystemExit) as error:
            await leave_lifespans(entered)
            raise ConfigurationError(f"lifespan {name} failed: {_reason(error)}") from error
        entered.append((name, running))
    return entered


async def leave_lifespans(entered: list[Entered]) -> None:
    """Tear down in reverse order; what goes wrong is logged, and the next one is torn down all the same."""
    ends_at = asyncio.get_running_loop().time() + LEFT_WITHIN
    for name, running in reversed(entered):
        try:
            async with asyncio.timeout_at(ends_at) as limit:
                with suppress(StopAsyncIteration):
                    await anext(running)
                    log.warning("lifespan %s has a second `yield`, and what follows it does not run", name)
        except (Exception, SystemExit, asyncio.CancelledError):
            late = f": it did not end within {LEFT_WITHIN:g} s" if limit.expired() else ""
            log.exception("lifespan %s could not be torn down%s", name, late)


def _reason(error: BaseException) -> str:
    if isinstance(error, StopAsyncIteration):
        return "it ended without a `yield`"
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
