"""Waiting for a connection, until a certain time: in a thread, which is blocked, or in a coroutine.

What is to be said and heard is a generator that yields whenever the other side has to do something first.
"""

import asyncio
import select
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

from standfast.stores.threads import Reply

T = TypeVar("T")

Waits = Generator[bool, None, T]
"""A piece of conversation, and what comes of it. It yields False until something came in, and True where it will do
that something may go out."""


class OverdueError(Exception):
    """The server did not answer in time: the connection is of no use any more."""

    may_be_done = False
    """Whether the server may have committed what it was asked."""


class Readiness:
    """Tells of one descriptor, and blocks until there is something to tell. Windows has no poll."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)

    def is_readable(self) -> bool:
        """Tell whether something came in."""
        return self._wait(0, writing=False)[0]

    def is_ready(self, *, writing: bool) -> bool:
        """Tell whether something came in, or may be written where that will do."""
        return any(self._wait(0, writing=writing))

    def go_through(self, waits: Waits[T], until: float) -> T:
        """Return what comes of a conversation. Raises OverdueError at the time given, a reading of monotonic()."""
        try:
            writing = next(waits)
            while True:
                try:
                    self._wait_until(until, writing=writing)
                except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                    writing = waits.throw(error)
                else:
                    writing = next(waits)
        except StopIteration as stop:
            told: T = stop.value
            return told

    def _wait_until(self, until: float, *, writing: bool) -> None:
        if not any(self._wait(max(until - time.monotonic(), 0), writing=writing)):
            raise OverdueError

    def _wait(self, timeout: float, *, writing: bool) -> tuple[bool, bool]:
        if self._poll is None:
            found = select.select([self.descriptor], [self.descriptor] if writing else [], [], timeout)
            return bool(found[0]), bool(found[1])
        if writing:
            self._poll.modify(self.descriptor, select.POLLIN | select.POLLOUT)
        found = self._poll.poll(timeout * 1000)
        if writing:
            self._poll.modify(self.descriptor, select.POLLIN)
        events = found[0][1] if found else 0
        return bool(events & ~select.POLLOUT), bool(events & select.POLLOUT)


async def go_through(ready: Readiness, waits: Waits[T], until: float) -> T:
    """Do as `Readiness.go_through` does, in a coroutine. Its event loop must be able to watch descriptors."""
    watch: _Watch | None = None
    try:
        writing = next(waits)
        watch = _Watch(ready, until)
        watch.begin()
        while True:
            try:
                await watch.wait(writing=writing)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                watch.close()  # the descriptor may be closed now, and be another's
                writing = waits.throw(error)
                watch = _Watch(ready, until)
                watch.begin()
            else:
                writing = next(waits)
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        if watch is not None:
            watch.close()


class _Watch:
    """Has an event loop watch a descriptor, until a certain time.

    A loop that somebody blocked learns only afterwards that the time is over: then what has come meanwhile counts.
    """

    def __init__(self, ready: Readiness, until: float) -> None:
        self._ready = ready
        self._descriptor = ready.descriptor
        self._loop = asyncio.get_running_loop()
        self._until = until
        self._news = Reply[None](loop=self._loop)
        self._wakers: Any = ()
        self._timer: asyncio.TimerHandle | None = None
        self._is_watching = self._writing = self._overdue = False

    def begin(self) -> None:
        """Watch from now on. First remove what an interrupted watch may have left for this descriptor."""
        self._is_watching = True
        with suppress(OSError):
            self._loop.remove_reader(self._descriptor)
        self._loop.add_reader(self._descriptor, self._wake)
        self._timer = self._loop.call_later(max(self._until - time.monotonic(), 0), self._give_up)

    async def wait(self, *, writing: bool) -> None:
        """Wait until something came in, or may be written. Raises OverdueError."""
        if writing is not self._writing:
            self._watch_writing(writing)
        if not self._overdue:
            try:
                await self._news
            finally:
                self._news.is_heard = True
            self._news = Reply[None](loop=self._loop)
        if self._overdue and not self._ready.is_ready(writing=writing):
            raise OverdueError

    def close(self) -> None:
        """Watch no more; repeated, do nothing."""
        if not self._is_watching:
            return
        self._loop.remove_reader(self._descriptor)
        if self._writing:
            self._watch_writing(False)
        if self._timer is not None:
            self._timer.cancel()
        self._is_watching = False

    def _watch_writing(self, writing: bool) -> None:
        self._writing = writing
        if writing:
            self._loop.add_writer(self._descriptor, self._wake)
        else:
            self._loop.remove_writer(self._descriptor)

    def _wake(self) -> None:
        if self._news.done():  # a signal handler interrupted its wakers, or its caller is about to go on
            self._loop.call_soon(self._news.wake, self._wakers)
            return
        self._wakers = self._news.wakers
        self._news.set_result(None)

    def _give_up(self) -> None:
        self._overdue = True
        self._wake()
