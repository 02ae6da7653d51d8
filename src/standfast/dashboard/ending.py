"""What is done to its end, although whoever waits for it is told to stop meanwhile."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds for which a stop waits: a store that does not answer must not keep a process for ever."""


async def to_its_end(work: Awaitable[T]) -> T:
    """Return what comes of some work. A cancellation meanwhile counts when it is over, or lasts too long."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await wait_for_end(task)
        raise


async def wait_for_end(task: asyncio.Future[Any]) -> None:
    """Wait until something is over, however it ends and however often this is cancelled; not for ever."""
    until = time.monotonic() + PATIENCE
    while not task.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:  # who waits knows already
            continue
    if task.done() and not task.cancelled():
        task.exception()  # the news is that it was told to stop
