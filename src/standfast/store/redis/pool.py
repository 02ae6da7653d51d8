"""The connections of threads for one kind of call: a bounded number, used again, each looked at before it is used.

A signal handler may raise between any two steps of a call, and then nobody gives back what was lent. So it is not
counted how many are lent: there is a seat for each, which is free, or in someone's hands, or gone (with the error
that knows the frames it came through), and one that is gone is replaced.
"""

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from weakref import ref

from standfast.errors import StoreUnavailableError
from standfast.store.redis.address import Address, Place
from standfast.store.redis.connect import open_connection
from standfast.store.redis.wire import ClosedError, Wire

_LEAST = 0.001
"""Seconds: a system takes 0 for no limit."""


class Seat:
    """The right to one connection. It lives as long as someone has it."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class Line:
    """A connection, where it leads, and the seat of whoever has it in hands."""

    place: Place
    wire: Wire
    seat: Seat | None = None
    is_hurried: bool = False
    """Whether its waits are limited to the time left for the call that it was opened for."""


class Pool:
    """At most `size` connections."""

    def __init__(self, address: Address, size: int, timeout: float) -> None:
        self._address = address
        self._size = size
        self._timeout = timeout
        self._idle: deque[Line] = deque()
        self._free: SimpleQueue[Seat] = SimpleQueue()  # faster than a semaphore
        self._seats: list[ref[Seat]] = []
        self._replacing = threading.RLock()
        self._is_closed = False
        self._replace_lost_seats()

    def take(self, place: Place, give_up_at: float | None = None, *, fresh: bool = False) -> Line:
        """Return a connection to this place that nobody else uses, to be given back or dropped.

        `give_up_at` is a time of the monotonic clock. It limits the opening of a connection, and each wait on one
        that is opened here. A `fresh` one is always opened. Raises ClosedError once the pool is closed.
        """
        try:
            seat = self._free.get(block=False)
        except Empty:
            seat = self._wait_for_seat(self._left(give_up_at))
        try:
            line = None if fresh else self._usable_idle(place)
            if line is None:
                line = self._open(place, self._left(give_up_at))
        except BaseException:
            self._free.put(seat)
            raise
        line.seat = seat
        return line

    def give_back(self, line: Line) -> None:
        """Let others use the connection: all that was asked on it is answered."""
        seat, line.seat = line.seat, None
        if line.is_hurried:
            line.wire.limit_waits(self._timeout)
            line.is_hurried = False
        self._idle.append(line)
        if seat is not None:
            self._free.put(seat)
        if self._is_closed:
            self.clear()

    def drop(self, line: Line) -> None:
        """Let nobody use the connection again."""
        seat, line.seat = line.seat, None
        line.wire.close()
        if seat is not None:
            self._free.put(seat)

    def clear(self) -> None:
        """Hang up where nobody uses a connection now."""
        with suppress(IndexError):
            while True:
                self._idle.pop().wire.close()

    def close(self) -> None:
        """Open no more connections, and hang up each as soon as nobody uses it."""
        self._is_closed = True
        self.clear()

    def _left(self, give_up_at: float | None) -> float:
        """Return the seconds until then, and always enough for a try."""
        return self._timeout if give_up_at is None else max(give_up_at - time.monotonic(), _LEAST)

    def _wait_for_seat(self, seconds: float) -> Seat:
        self._replace_lost_seats()
        try:
            return self._free.get(timeout=seconds)
        except Empty:
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to Redis {self._address.name} were in use for over"
                f" {self._timeout:g} s: call from fewer threads at once, or try again"
            ) from None

    def _replace_lost_seats(self) -> None:
        with self._replacing:
            self._seats = [known for known in self._seats if known() is not None]
            while len(self._seats) < self._size:
                seat = Seat()
                self._seats.append(ref(seat))
                self._free.put(seat)

    def _usable_idle(self, place: Place) -> Line | None:
        while True:
            try:
                idle = self._idle.pop()
            except IndexError:
                return None
            is_there = idle.place is place or idle.place == place
            if is_there and not idle.wire.has_news:  # such as that the server has hung up
                return idle
            idle.wire.close()

    def _open(self, place: Place, seconds: float) -> Line:
        if self._is_closed:
            raise ClosedError("the store was closed")
        opened_by = time.monotonic() + seconds
        line = Line(place, open_connection(self._address, place, seconds), is_hurried=True)
        line.wire.limit_waits(self._left(opened_by))
        return line
