"""Threads for the end of a process, on a Python that starts none then.

Python 3.12.0 and 3.12.1 refuse to start a thread once the main thread has ended. But a worker inside the process
and its background work stop just then. They, their stores and asyncio need threads for that. So some are started
ahead, wait, and take the place of new ones at the end.
"""

import _thread
import os
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

REFUSED = (3, 12, 0) <= sys.version_info[:3] <= (3, 12, 1)
SPARES = 24
"""More than a stop was seen to need: each does one piece of work."""

_waiting: SimpleQueue[SimpleQueue[Callable[[], Any]]] = SimpleQueue()
_kept_by: list[int] = []


def start_spare_threads() -> None:
    """Start the threads, once in a process, if this Python needs them."""
    if REFUSED and _kept_by != [os.getpid()]:
        _kept_by[:] = [os.getpid()]
        while not _waiting.empty():  # those of the parent of a fork
            _waiting.get()
        for _ in range(SPARES):
            work: SimpleQueue[Callable[[], Any]] = SimpleQueue()
            _thread.start_new_thread(_wait_for, (work,))
            _waiting.put(work)


def use_spare_threads() -> None:
    """Let them take the place of new threads in all that this process does from now on: it is about to end."""
    if _kept_by == [os.getpid()]:
        _thread.start_new_thread = _hand_over
        threading._start_new_thread = _hand_over  # type: ignore[attr-defined]  # noqa: SLF001 - by which it starts all


def _wait_for(work: SimpleQueue[Callable[[], Any]]) -> None:
    work.get()()


def _hand_over(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> int:
    """Do what `_thread.start_new_thread` does, in a thread that waits."""
    begun: SimpleQueue[int] = SimpleQueue()

    def run() -> None:
        begun.put(threading.get_ident())
        function(*args, **(kwargs or {}))

    try:
        _waiting.get_nowait().put(run)
    except Empty:
        raise RuntimeError("this process is about to end, and starts no more threads") from None
    return begun.get()
