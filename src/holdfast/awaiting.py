"""Code that is written once, as async code, for sync and async callers."""

import asyncio
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


async def to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await something that no cancellation may leave half done; a cancellation meanwhile is raised after it."""
    task, cancelled = asyncio.ensure_future(coroutine), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if (failure := task.exception()) is not None:
        cancelled.add_note(f"what it was cancelled in failed: {failure}")
    raise cancelled


def must_not_block(call: str, instead: str, error: type[Exception]) -> None:
    """Refuse to wait in the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise error(f"{call} would block the event loop: write `{instead}` in async code")
