"""The connections of one lane: a bounded number, used again, each looked at before anything is sent on it.

A signal handler may raise between any two steps of a call, and then nobody gives back what was lent. So it is not
counted how many are lent: there is a seat for each, which is free, or in someone's hands, or gone (with the error
that knows the frames it came through), and one that is gone is replaced.
"""

import select
import threading
from collections import deque
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from weakref import ref

from holdfast.errors import StoreUnavailableError
from holdfast.store.redis.address import Address, Place
from holdfast.store.redis.connect import Wire, descriptor, open_connection


@dataclass(frozen=True, slots=True)
class Line:
    """A connection, and where it leads."""

    place: Place
    wire: Wire
    news: "select.poll"

    @property
    def is_spoilt(self) -> bool:
        """Whether the server has hung up, or said something that nobody asked for."""
        return bool(self.news.poll(0))


class Seat:
    """The right to one connection. It lives as long as someone has it."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Lent:
    """A connection in someone's hands."""

    line: Line
    seat: Seat

    @property
    def wire(self) -> Wire:
        """The connection itself."""
        return self.line.wire


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
        self._replace_lost_seats()

    def take(self, place: Place) -> Lent:
        """Return a connection to this place that nobody else uses, to be given back or dropped."""
        if self._free.empty():
            self._replace_lost_seats()
        try:
            seat = self._free.get(timeout=self._timeout)
        except Empty:
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to Redis {self._address.name} were in use for over"
                f" {self._timeout:g} s: call from fewer threads at once, or try again"
            ) from None
        try:
            return Lent(self._usable_idle(place) or self._open(place), seat)
        except BaseException:
            self._free.put(seat)
            raise

    def give_back(self, lent: Lent) -> None:
        """Let others use the connection: all that was asked on it is answered."""
        self._idle.append(lent.line)
        self._free.put(lent.seat)

    def drop(self, lent: Lent) -> None:
        """Let nobody use the connection again."""
        lent.wire.disconnect()
        self._free.put(lent.seat)

    def clear(self) -> None:
        """Hang up where nobody uses a connection now."""
        while (idle := self._idle_one()) is not None:
            idle.wire.disconnect()

    def _replace_lost_seats(self) -> None:
        with self._replacing:
            self._seats = [known for known in self._seats if known() is not None]
            while len(self._seats) < self._size:
                seat = Seat()
                self._seats.append(ref(seat))
                self._free.put(seat)

    def _usable_idle(self, place: Place) -> Line | None:
        while (idle := self._idle_one()) is not None:
            if idle.place == place and not idle.is_spoilt:
                return idle
            idle.wire.disconnect()
        return None

    def _idle_one(self) -> Line | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self, place: Place) -> Line:
        wire, news = open_connection(self._address, place, self._timeout), select.poll()
        news.register(descriptor(wire), select.POLLIN)
        return Line(place, wire, news)
