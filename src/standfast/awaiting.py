"""Code that is written once, as async code, for sync and async callers."""

import asyncio
import math
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise RuntimeError(f"{coroutine!r} waits, and there is no event loop to wait in")


async def to_its_end(coroutine: Coroutine[Any, Any, T], within: float | None = None) -> T:
    """Await a coroutine to its end, even if this call is cancelled: the cancellation is raised after the end.

    If the coroutine has not ended `within` so many seconds after the first cancellation, it is cancelled too.
    """
    task, cancelled = asyncio.ensure_future(coroutine), None
    until = math.inf
    while not task.done():
        try:
            if not (await asyncio.wait([task], timeout=_until(until)))[0]:
                until = math.inf
                task.cancel()
        except asyncio.CancelledError as error:
            if cancelled is None and within is not None:
                until = time.monotonic() + within
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()) is not None:
        cancelled.add_note(f"what it was cancelled in failed: {failure}")
    raise cancelled


def _until(moment: float) -> float | None:
    return None if moment == math.inf else max(moment - time.monotonic(), 0)


def must_not_block(call: str, instead: str, error: type[Exception]) -> None:
    """Refuse to wait in the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise error(f"{call} would block the event loop: write `{instead}` in async code")
