"""How checkpoints wait for the notebook: in a thread or on the event loop, and no longer than the attempt."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from standfast.durable.notebook import Notebook

T = TypeVar("T")

LOOK_EVERY = 0.25
"""Seconds between two looks at whether the attempt is to end."""

WARN_AFTER = 10.0
"""Seconds after which a handler that waits for the store says why it stands still."""


class Host(Protocol):
    """What checkpoints need of the attempt that they belong to."""

    @property
    def log(self) -> "logging.LoggerAdapter[Any]":
        """Where to say from where the attempt goes on."""
        ...

    def raise_if_cancelled(self) -> None:
        """End the attempt here if it is to end."""
        ...


class Waiting:
    """Waits for answers of the notebook on behalf of one attempt."""

    def __init__(self, host: Host, notebook: Callable[[], Notebook]) -> None:
        self.host = host
        self._notebook = notebook

    @property
    def notebook(self) -> Notebook:
        """The notebook of the attempt."""
        return self._notebook()

    def answer(self, future: "Future[T]") -> T:
        """Block this thread until there is an answer."""
        began = time.monotonic()
        warned = False
        while True:
            try:
                return future.result(LOOK_EVERY)
            except TimeoutError:
                if future.done():
                    return future.result()
            warned = self._look(began, warned=warned)

    async def await_answer(self, future: "Future[T]") -> T:
        """Let the event loop go on until there is an answer."""
        began = time.monotonic()
        warned = False
        waiting = awaitable(future)
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOK_EVERY)
            if not waiting.done():
                warned = self._look(began, warned=warned)
        return waiting.result()

    def _look(self, began: float, *, warned: bool) -> bool:
        self.host.raise_if_cancelled()
        if not warned and time.monotonic() - began > WARN_AFTER:
            self.host.log.warning(
                "the store has not answered for %g s, and this handler waits for it: it is away, or the handler has"
                " a transaction open in which it has written to the store's own database; commit that first",
                WARN_AFTER,
            )
            return True
        return warned


def awaitable(future: "Future[T]") -> "asyncio.Future[T]":
    """Return a future of this loop that follows another; who has given up need not hear what it raises."""
    waiting = asyncio.wrap_future(future)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiting
