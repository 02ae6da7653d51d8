"""The last spans of a process: a provider that exports in batches has some yet, and leaving runs no `atexit`."""

import asyncio
import threading

from standfast.tracing.port import Tracing

LAST_SPANS = 2.0
"""Seconds for them to be exported, wherever that is."""


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
    try:
        async with asyncio.timeout(LAST_SPANS):
            await over.wait()
    except TimeoutError:
        return
