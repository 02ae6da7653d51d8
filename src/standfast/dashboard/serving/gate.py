"""The gate before the port: who connects gets one of so many places, or is closed at once.

    connects ─► from where? ─► a place, of all and of this address ─► silent ─► busy ─► silent ─► … ─► closed

Where no place is free, one who is silent makes way, else the one who has taken nothing of an answer for longest:
with connections alone nobody keeps others out, nor uses up the descriptors that the store needs.
"""

import logging
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from standfast.dashboard.access.caller import is_within
from standfast.health.guard import key_of, read_networks, read_peer

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Connections that are taken before those that have a place are looked at again."""

UNTAKEN = 20.0
"""Seconds for which somebody may take nothing of what is sent to them."""

_BACKLOG = 128
_MOST, _FEWEST = 512, 32
_ABORTED = struct.pack("ii", 1, 0)  # what was not sent yet is thrown away


def places() -> int:
    """Return how many may be connected at a time: half of the descriptors that this process may have, at most."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if descriptors < 0 else max(_FEWEST, min(_MOST, descriptors // 2))


class Gate(socket.socket):
    """A socket that listens, in place of another one. Belongs to one event loop.

    `networks` may connect, None for any; so may `proxies`, each for as many as there are places. Of another address
    there may be `of_one`, by default a quarter of them.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        networks: Sequence[str] | None = None,
        proxies: Sequence[str] = (),
        most: int | None = None,
        of_one: int | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fileno=listening.detach())
        self._proxies = read_networks(proxies)
        self._networks = None if networks is None else (*read_networks(networks), *self._proxies)
        self._most = places() if most is None else most
        self._of_one = max(1, self._most // 4) if of_one is None else of_one
        self.ticks = ticks
        self._guests: dict[int, _Guest] = {}
        self._counts: Counter[Hashable] = Counter()

    def listen(self, _backlog: int = _BACKLOG, /) -> None:
        """Let so many wait, however many are taken at once."""
        super().listen(_BACKLOG)

    def accept(self) -> "tuple[_Guest, Any]":
        """Return the next who has a place. Raises BlockingIOError where none is there, or many had none."""
        for _ in range(AT_ONCE):
            wire, peer = super().accept()
            guest = self._seat(wire, peer)
            if guest is not None:
                return guest, peer
            _abort(wire)
            wire.close()
        raise BlockingIOError

    def note(self, number: int, *, is_silent: bool) -> None:
        """Say of a connection, by its descriptor, whether it owes us a request, or we owe it an answer."""
        if number in self._guests:
            self._guests[number].is_silent = is_silent

    def sweep(self) -> None:
        """Close those who do not take what is sent to them."""
        now = self.ticks()
        for guest in [each for each in self._guests.values() if each.untaken(now) > UNTAKEN]:
            log.warning("connections were closed that took nothing of their answers")
            self._drop(guest)

    def leave(self, guest: "_Guest") -> None:
        """Free the place of somebody."""
        if self._guests.get(guest.number) is guest:
            del self._guests[guest.number]
            self._counts[guest.whose] -= 1
            self._counts += Counter()  # who has no place is forgotten

    def __len__(self) -> int:
        """Return how many have a place."""
        return len(self._guests)

    def _seat(self, wire: socket.socket, peer: Any) -> "_Guest | None":
        address = read_peer(peer[0])
        if self._networks is not None and not is_within(address, self._networks):
            log.warning("connections were closed at once: they came from where nobody may come from")
            return None
        whose = key_of(address)
        is_proxy = is_within(address, self._proxies)
        if not is_proxy and self._counts[whose] >= self._of_one:
            may_stay = self._make_room(each for each in self._guests.values() if each.whose == whose)
        else:
            may_stay = len(self._guests) < self._most or self._make_room(self._guests.values())
        if not may_stay:
            log.warning("connections were closed at once: too many at a time, from one address or in all")
            return None
        guest = _Guest(wire, self, whose)
        self._guests[guest.number] = guest
        self._counts[whose] += 1
        return guest

    def _make_room(self, guests: "Iterable[_Guest]") -> bool:
        """Close one who is silent, or takes nothing; tell whether there was any."""
        now = self.ticks()
        found = list(guests)
        silent = next((each for each in found if each.is_silent), None)
        slowest = max(found, key=lambda each: each.untaken(now))
        if silent is None and not slowest.untaken(now):
            return False
        log.warning("connections were closed to make room for others: too many at a time")
        self._drop(silent or slowest)
        return True

    def _drop(self, guest: "_Guest") -> None:
        self.leave(guest)
        _abort(guest)


class _Guest(socket.socket):
    """A connection that has a place, until it is closed, and knows since when nothing of it was taken."""

    def __init__(self, wire: socket.socket, gate: Gate, whose: Hashable) -> None:
        super().__init__(fileno=wire.detach())
        self._gate = gate
        self.whose = whose
        self.number = self.fileno()
        self.is_silent = True
        self._stuck_at: float | None = None

    def untaken(self, now: float) -> float:
        """Return for how many seconds nothing was taken of what waits to be sent."""
        return 0.0 if self._stuck_at is None else now - self._stuck_at

    def send(self, data: Any, *flags: int) -> int:
        return self._watched(lambda: super(_Guest, self).send(data, *flags), (data,))

    def sendmsg(self, buffers: Iterable[Any], *more: Any) -> int:
        parts = list(buffers)
        return self._watched(lambda: super(_Guest, self).sendmsg(parts, *more), parts)

    def close(self) -> None:
        self._gate.leave(self)
        super().close()

    def _watched(self, send: Callable[[], int], parts: Iterable[Any]) -> int:
        try:
            sent = send()
        except BlockingIOError:
            if self._stuck_at is None:
                self._stuck_at = self._gate.ticks()
            raise
        is_all = sent == sum(memoryview(part).nbytes for part in parts)
        self._stuck_at = None if is_all else self._gate.ticks()
        return sent


def _abort(wire: socket.socket) -> None:
    """End a connection, which whoever waits for it learns; it is for its owner to close."""
    with suppress(OSError):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTED)
        wire.shutdown(socket.SHUT_RDWR)
