"""Threads of a store that work for async callers, and end when it is closed.

Whoever gives them work may be cut short by a signal handler. The executor of the library has locks that are then
kept for good: so here nobody who gives work takes a lock or waits, and threads are started by threads.
"""

import _thread
import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar
from weakref import finalize, ref

T = TypeVar("T")


_Work = SimpleQueue[Callable[[], None] | None]


class Threads:
    """At most `size` threads, none before there is work. `closed` makes the error for work that comes too late.

    They end when this is closed, or when nobody has it any more.
    """

    def __init__(self, size: int, name: str, closed: Callable[[], Exception]) -> None:
        self._size = size
        self._name = name
        self.closed = closed
        self._work: _Work = SimpleQueue()
        self._starting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle: set[int] = set()
        self._is_closed = False
        finalize(self, self._work.put, None)

    def do(self, work: Callable[[], None]) -> None:
        """Let one of the threads do it, soon; it raises nothing."""
        if self._is_closed:
            raise self.closed()
        self._work.put(work)  # before the look at who is idle: who ceases to be looks at the work after that
        if self._work.qsize() > len(self._idle) and len(self._threads) < self._size:
            _thread.start_new_thread(self._begin, ())
        if self._is_closed:  # by another thread, after which those that there were may have ended
            _thread.start_new_thread(_serve, (ref(self), self._work, self._idle))

    def close(self) -> None:
        """Take no more work, and wait until that which was given is done."""
        self._is_closed = True
        if self._work.qsize():
            self._start()  # it may be that nobody has begun yet
        self._work.put(None)
        with self._starting:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _begin(self) -> None:
        """Start a thread; where the system has none left, be it."""
        try:
            self._start()
        except RuntimeError:
            _serve(ref(self), self._work, self._idle)

    def _start(self) -> None:
        with self._starting:
            number = len(self._threads)
            if number >= self._size or (number and self._is_closed):
                return
            served = (ref(self), self._work, self._idle)
            thread = threading.Thread(target=_serve, args=served, name=f"{self._name}_{number}", daemon=True)
            thread.start()
            self._threads.append(thread)


def _serve(of: "ref[Threads]", to_do: _Work, idle: set[int]) -> None:
    own = threading.get_ident()
    while True:
        idle.add(own)
        work = to_do.get()
        idle.discard(own)
        if work is None:
            work = _given_before_the_end(to_do)
            to_do.put(None)  # for the others, and for this one
            if work is None:
                return
        elif to_do.qsize() and not idle and (threads := of()) is not None:
            with suppress(RuntimeError):  # the system has no thread left: what waits is done after this
                threads._start()  # noqa: SLF001 - it is one of them
        threads = None
        work()
        work = None


def _given_before_the_end(to_do: _Work) -> Callable[[], None] | None:
    with suppress(Empty):
        while (work := to_do.get_nowait()) is None:
            pass
        return work
    return None


class Handover:
    """What a thread does for somebody, who may leave meanwhile. One of the two takes it, in one step."""

    def __init__(self) -> None:
        self.is_unwanted = False
        self._taken: list[None] = [None]

    def take(self) -> bool:
        """Tell whether nobody has taken it before."""
        try:
            self._taken.pop()
        except IndexError:
            return False
        return True


async def in_a_thread(
    threads: Threads,
    work: Callable[[], T],
    undo: Callable[[T], object] = lambda _: None,
    handover: Handover | None = None,
    unbegun: Callable[[], object] = lambda: None,
) -> T:
    """Let a thread do it, and wait for that.

    What is not begun when its caller leaves is not done, but `unbegun` is; what is done for one that is
    unwanted by then is undone.
    """
    handover = handover or Handover()
    loop = asyncio.get_running_loop()
    reply: asyncio.Future[T] = loop.create_future()

    def do() -> None:
        if not handover.take():
            return
        done: list[T] = []
        error: BaseException | None = None
        try:
            if not handover.is_unwanted:
                done.append(work())
            if handover.is_unwanted and done:
                undo(done.pop())
        except BaseException as raised:  # noqa: BLE001 - for whoever waits
            error = raised
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            for _ in range(2):  # a signal's handler may raise in the first, which event loops log and forget
                loop.call_soon_threadsafe(_tell, reply, done, error or threads.closed())

    try:
        threads.do(do)
        return await asyncio.shield(reply)
    except BaseException:
        handover.is_unwanted = True
        if handover.take():
            unbegun()
        reply.add_done_callback(partial(_take_back, undo))
        raise


def _tell(reply: "asyncio.Future[T]", done: list[T], error: BaseException) -> None:
    if not reply.done():
        if done:
            reply.set_result(done[0])
        else:
            reply.set_exception(error)


def _take_back(undo: Callable[[T], object], reply: asyncio.Future[T]) -> None:
    if not reply.cancelled() and reply.exception() is None:
        undo(reply.result())
