"""How the processes that run handlers end, the last spans they export, and the lifespans of an app."""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

from standfast.app import Standfast
from standfast.context import name_of
from standfast.errors import ConfigurationError
from standfast.model.tracing import Tracing
from standfast.worker.storecalls import happens_within


def live(life: Coroutine[Any, Any, None]) -> NoReturn:
    """Run the process; what it did not expect is said here, because leaving says nothing."""
    try:
        asyncio.run(life)
    except BaseException:  # noqa: BLE001 - whatever it is, the process is over
        traceback.print_exc()
    leave(1)


def leave(code: int) -> NoReturn:
    """End at once: no thread, and nothing that waits for one, may keep a process whose claims wait for release."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


LAST_SPANS = 2.0  # seconds for them to be exported, wherever that is


async def export_last_spans(tracing: Tracing | None) -> None:
    """Have what was not exported yet exported, but wait no longer than that."""
    if tracing is None:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def export(tracing: Tracing) -> None:
        tracing.flush(LAST_SPANS)
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=export, args=(tracing,), name="standfast-last-spans", daemon=True).start()
    await happens_within(LAST_SPANS, over.wait())


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
