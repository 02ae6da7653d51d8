"""Plain functions run in threads of their own pool; they are told to stop, and cannot be made to."""

import asyncio
import contextvars
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


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

    def _run(self, handler: Callable[[], Any]) -> Any:
        self._thread_id = threading.get_ident()
        return handler()

    def stack(self) -> str:
        """Return where the handler is now."""
        frame = sys._current_frames().get(self._thread_id or 0)  # noqa: SLF001 - the documented way
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
