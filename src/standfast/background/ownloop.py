"""An event loop in a thread of its own, for coroutines that are begun where no event loop runs."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

LAST_TURN = 1.0
"""Seconds for the loop to end."""


class OwnLoop:
    """A loop that begins when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        with self._lock:
            if self._loop is None:
                begun: Future[asyncio.AbstractEventLoop] = Future()
                name = "standfast-background-loop"
                self._thread = threading.Thread(
                    target=asyncio.run, args=(self._live(begun),), name=name, daemon=True
                )
                self._thread.start()
                self._loop = begun.result()
            return self._loop

    def close(self, spared: asyncio.AbstractEventLoop | None) -> None:
        """End the loop, and with it what is left in it; but not one on which somebody waits for that."""
        with self._lock:
            if spared is not None and self._loop is spared:
                return
            thread, end = self._thread, self._end
            self._thread = self._loop = self._end = None
        if thread is None or end is None:
            return
        with suppress(RuntimeError):  # it has ended already
            end()
        thread.join(LAST_TURN)

    async def _live(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._end = partial(loop.call_soon_threadsafe, over.set)
        begun.set_result(loop)
        await over.wait()
