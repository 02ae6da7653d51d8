"""Plain functions run in threads of their own pool; they are told to stop, and cannot be made to."""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class Returned:
    """What a handler in a thread came to: its value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class ThreadExecutor:
    """A bounded pool of threads that knows which one runs what."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="holdfast-job")

    def submit(self, handler: Callable[[], Any]) -> "ThreadCall":
        """Start the handler in a free thread."""
        return ThreadCall(self._pool, handler)

    def abandon(self) -> None:
        """Let running threads be; take no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ThreadCall:
    """One handler in a thread."""

    def __init__(self, pool: ThreadPoolExecutor, handler: Callable[[], Any]) -> None:
        self._thread_id: int | None = None
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        self.done = loop.run_in_executor(pool, context.run, partial(self._run, handler))

    def _run(self, handler: Callable[[], Any]) -> Returned:
        """Run the handler. What it raises is passed on as a value: a future cannot carry every exception."""
        self._thread_id = threading.get_ident()
        try:
            return Returned(handler())
        except BaseException as error:  # noqa: BLE001 - it is the outcome of this attempt, whatever it is
            return Returned(error=error)

    def stack(self) -> str:
        """Return where the handler is now."""
        frame = sys._current_frames().get(self._thread_id or 0)  # noqa: SLF001 - the documented way
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
