"""Threads of a store that work for async callers, and end when it is closed.

A signal handler may interrupt a call that gives them work. In the executors of the standard library that can leave
a lock taken for good. So here a call that gives work takes no lock and does not wait, and threads start threads.
"""

import _thread
import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import finalize, ref

T = TypeVar("T")

log = logging.getLogger(__name__)


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
        self._work.put(work)  # before the look at idle threads: one that begins to work looks at what is left later
        if self._work.qsize() > len(self._idle) and len(self._threads) < self._size:
            _thread.start_new_thread(self._begin, ())
        if self._is_closed:  # closed by another thread just now: the threads may have ended
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
        """Start a thread. If the system has none left, do the work in this one."""
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
        try:
            work()
        except Exception:
            log.exception("a thread of the store failed at its work, and goes on")
        work = None


def _given_before_the_end(to_do: _Work) -> Callable[[], None] | None:
    with suppress(Empty):
        while (work := to_do.get_nowait()) is None:
            pass
        return work
    return None


class Handover:
    """Work of a thread for a caller, who may leave meanwhile. Only one of the two takes it, in one step."""

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


class Reply(asyncio.Future[T]):
    """What one caller on an event loop waits for.

    A signal handler may raise while it is set, before its caller is woken. So code that sets it reads `wakers`
    before, and can wake the caller with them later.
    """

    is_heard = False
    """Whether its caller has gone on."""

    @property
    def wakers(self) -> Any:
        """Its callbacks, which wake the caller. They are lost if setting it is interrupted."""
        return getattr(self, "_callbacks", None) or ()

    def wake(self, wakers: Any) -> None:
        """Wake a caller that still waits, although the reply is set."""
        for wake, context in () if self.is_heard else wakers:
            context.run(wake, self)


class _Call(Generic[T]):
    """What a thread is to do for a caller on an event loop, and what came of it."""

    def __init__(
        self,
        work: Callable[[], T],
        undo: Callable[[T], object],
        handover: Handover,
        closed: Callable[[], Exception],
    ) -> None:
        self._work = work
        self._undo = undo
        self._handover = handover
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._done: list[T] = []
        self._wakers: list[Any] = []
        self.reply = Reply[T](loop=self._loop)

    def do(self) -> None:
        """Do it, in a thread, unless its caller has left."""
        if not self._handover.take():
            return
        error: BaseException | None = None
        try:
            if not self._handover.is_unwanted:
                self._done.append(self._work())
            if self._handover.is_unwanted:
                self.take_back()
        except BaseException as raised:  # noqa: BLE001 - for whoever waits
            error = raised
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            for _ in range(2):  # a signal handler may raise in the first, which event loops only log
                self._loop.call_soon_threadsafe(self._tell, error)

    def take_back(self) -> None:
        """Undo what was done for somebody who has left."""
        with suppress(IndexError):  # by the thread or by the caller
            self._undo(self._done.pop())

    def _tell(self, error: BaseException | None) -> None:
        if self.reply.done():
            if self._wakers:
                self._loop.call_soon(self.reply.wake, self._wakers.pop())
            return
        self._wakers = [self.reply.wakers]
        if self._done:
            self.reply.set_result(self._done[0])
        else:
            self.reply.set_exception(error or self._closed())


async def in_a_thread(
    threads: Threads,
    work: Callable[[], T],
    undo: Callable[[T], object] = lambda _: None,
    handover: Handover | None = None,
    unbegun: Callable[[], object] = lambda: None,
) -> T:
    """Let a thread do it, and wait for that.

    If the caller leaves before the work begins, the work is not done, and `unbegun` is called. If the caller has
    left when the work ends, or the handover is unwanted by then, `undo` is called with the result.
    """
    handover = handover or Handover()
    call = _Call(work, undo, handover, threads.closed)
    try:
        threads.do(call.do)
        return await call.reply
    except BaseException:
        handover.is_unwanted = True
        if handover.take():
            unbegun()
        else:
            call.take_back()
        raise
    finally:
        call.reply.is_heard = True
