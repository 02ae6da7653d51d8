"""Threads that end when the store is closed; most of what they do is to open a connection.

Whoever gives them work may be cut short by a signal handler. The executor of the library has locks that are then
kept for good: so here nobody who gives work takes a lock or waits, and threads are started by threads.
"""

import _thread
import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from redis.exceptions import RedisError

from holdfast.store.redis.address import Place
from holdfast.store.redis.wire import Wire

T = TypeVar("T")

Opened = tuple[Wire, Place, int]
"""A connection, where it leads, and how often the server had been lost before."""


class ClosedError(RedisError):
    """The store was closed while somebody still used it."""


class Threads:
    """At most `size` threads. None is started before there is work."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle: set[int] = set()
        self._is_closed = False

    def do(self, work: Callable[[], None]) -> None:
        """Let one of the threads do it, soon. Raises ClosedError where they have ended."""
        if self._is_closed:
            raise ClosedError("the store was closed")
        if self._work.qsize() >= len(self._idle) and len(self._threads) < self._size:
            _thread.start_new_thread(self._start, ())
        self._work.put(work)
        if self._is_closed:  # by another thread, after which those that there were may have ended
            _thread.start_new_thread(self._serve, ())

    def close(self) -> None:
        """Take no more work, and wait until that which was given is done."""
        self._is_closed = True
        self._work.put(None)
        with self._starting:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if len(self._threads) >= self._size:
                return
            thread = threading.Thread(target=self._serve, name=f"{self._name}_{len(self._threads)}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        own = threading.get_ident()
        while True:
            self._idle.add(own)
            work = self._work.get()
            self._idle.discard(own)
            if work is not None:
                if self._work.qsize() and not self._idle:
                    self._start()
                work()
                continue
            self._work.put(None)  # for the others
            if self._work.qsize() <= 1:
                return


class Errand:
    """What a thread does for somebody, who may leave meanwhile."""

    def __init__(self) -> None:
        self.is_unwanted = False


async def in_a_thread(
    threads: Threads,
    work: Callable[[], T],
    undo: Callable[[T], object] = lambda _: None,
    errand: Errand | None = None,
) -> T:
    """Let a thread do it, and wait for that.

    What is not begun when its caller leaves, or when the errand is unwanted, is not done; what is done is undone.
    """
    errand = errand or Errand()
    loop = asyncio.get_running_loop()
    reply: asyncio.Future[T] = loop.create_future()

    def do() -> None:
        try:
            if errand.is_unwanted:
                raise ClosedError("nobody waits for it any more")  # noqa: TRY301 - told like any other
            done = work()
            if errand.is_unwanted:
                undo(done)
                raise ClosedError("the store was closed meanwhile")  # noqa: TRY301 - likewise
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            tell = partial(loop.call_soon_threadsafe, reply.set_exception, error)
        else:
            tell = partial(loop.call_soon_threadsafe, reply.set_result, done)
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            tell()

    try:
        threads.do(do)
        return await asyncio.shield(reply)
    except BaseException:
        errand.is_unwanted = True
        reply.add_done_callback(partial(_take_back, undo))
        raise


def _take_back(undo: Callable[[T], object], reply: asyncio.Future[T]) -> None:
    if not reply.cancelled() and reply.exception() is None:
        undo(reply.result())


def hang_up(opened: Opened) -> None:
    """Close what was opened for somebody who has left."""
    opened[0].close()
