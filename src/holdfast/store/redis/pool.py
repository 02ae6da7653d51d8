"""The connections of one lane: a bounded number, used again, each looked at before anything is sent on it."""

import select
from collections import deque
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from holdfast.errors import StoreUnavailableError
from holdfast.store.redis.address import Address, Place
from holdfast.store.redis.connect import Wire, descriptor, open_connection


@dataclass(frozen=True, slots=True)
class Lent:
    """A connection, and where it leads."""

    place: Place
    wire: Wire
    news: "select.poll"

    @property
    def is_spoilt(self) -> bool:
        """Whether the server has hung up, or said something that nobody asked for."""
        return bool(self.news.poll(0))


class Pool:
    """At most `size` connections."""

    def __init__(self, address: Address, size: int, timeout: float) -> None:
        self._address = address
        self._size = size
        self._timeout = timeout
        self._idle: deque[Lent] = deque()
        self._free: SimpleQueue[None] = SimpleQueue()  # faster than a semaphore
        for _ in range(size):
            self._free.put(None)

    def take(self, place: Place) -> Lent:
        """Return a connection to this place that nobody else uses, to be given back or dropped."""
        try:
            self._free.get(timeout=self._timeout)
        except Empty:
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to Redis {self._address.name} were in use for over"
                f" {self._timeout:g} s: call from fewer threads at once, or try again"
            ) from None
        try:
            return self._usable_idle(place) or self._open(place)
        except BaseException:
            self._free.put(None)
            raise

    def give_back(self, lent: Lent) -> None:
        """Let others use the connection: all that was asked on it is answered."""
        self._idle.append(lent)
        self._free.put(None)

    def drop(self, lent: Lent) -> None:
        """Let nobody use the connection again."""
        lent.wire.disconnect()
        self._free.put(None)

    def clear(self) -> None:
        """Hang up where nobody uses a connection now."""
        while (idle := self._idle_one()) is not None:
            idle.wire.disconnect()

    def _usable_idle(self, place: Place) -> Lent | None:
        while (idle := self._idle_one()) is not None:
            if idle.place == place and not idle.is_spoilt:
                return idle
            idle.wire.disconnect()
        return None

    def _idle_one(self) -> Lent | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self, place: Place) -> Lent:
        wire, news = open_connection(self._address, place, self._timeout), select.poll()
        news.register(descriptor(wire), select.POLLIN)
        return Lent(place, wire, news)
