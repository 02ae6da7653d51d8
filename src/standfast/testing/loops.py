"""How sync code runs a coroutine: on an event loop of its own, in this thread or beside a loop that runs here."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_here(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in this thread. Raises RuntimeError where an event loop runs."""
    __tracebackhide__ = True
    if _loop_runs():
        raise RuntimeError("an event loop runs here: `await kit.adrain()`, or adrain_all, in async tests")
    # With a loop of our own making, that of the thread (`asyncio.get_event_loop`) is left as it is.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work())


def run_anywhere(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; where an event loop runs, in another thread, while this one waits."""
    __tracebackhide__ = True
    if not _loop_runs():
        return run_here(work)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(copy_context().run, run_here, work).result()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
