"""Where the server is that holds a namespace, and how to find it again after a failover.

All keys of a namespace have one hash tag, so that a cluster keeps them in one slot on one master: it is enough to
know that one. A slot that is being moved to another node is not followed half-way (ASK): a script sees the keys of
one node only, and would take those that are still on the other for missing. Even when all keys have moved, the new
node refuses each command with several keys of which one is new, in the middle of a script, until the slot is its
own. So calls wait for the end of the move (engine.py).
"""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

from redis.crc import key_slot
from redis.exceptions import RedisError

from standfast.errors import StoreError, StoreUnavailableError
from standfast.store.brief import refuse_foreign
from standfast.store.redis.address import Address, Kind, Place
from standfast.store.redis.connect import open_connection, open_to_sentinel
from standfast.store.redis.wire import Wire

_PATIENCE = 2.0
"""Seconds that one node has to answer before the next is asked."""


class Locator:
    """Knows where the server is: at one place for good, where nobody reports another.

    What a host name means may change, and is looked up for each connection.
    """

    may_move = False
    """Whether the server may be at another place the next time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.found: Place | None = address.places[0]
        """Where the server is, if that is known."""

    def find(self) -> Place:
        """Return where the server is; ask for it if that is not known."""
        return self._address.places[0]

    def lose(self, place: Place) -> None:
        """Take note that the server is no longer at this place."""


class Reported(Locator):
    """A server whose place some nodes report. They are asked in turn until one knows."""

    may_move = True

    def __init__(self, address: Address, timeout: float, slot: int) -> None:
        super().__init__(address)
        self.found = None
        self._timeout = timeout
        self._slot = slot
        self._asked = address.places

    def find(self) -> Place:
        """Return where the server is; ask for it if that is not known."""
        found = self.found
        if found is None:
            found = self.found = self._ask_around()
        return found

    def lose(self, place: Place) -> None:
        """Take note that the server is no longer at this place."""
        if self.found == place:
            self.found = None

    def _ask_around(self) -> Place:
        last_error: Exception | None = None
        give_up_at = time.monotonic() + self._timeout
        for node in self._asked:
            patience = min(_PATIENCE, give_up_at - time.monotonic())
            if patience <= 0:
                break
            try:
                found = self._ask(node, patience)
            except (RedisError, OSError) as error:
                if isinstance(error, OSError):
                    refuse_foreign(error)
                last_error = error
                continue
            if found is not None:
                return found
        if last_error is not None:
            raise last_error
        raise self._unknown()

    def _ask(self, node: Place, patience: float) -> Place | None:
        raise NotImplementedError

    def _unknown(self) -> StoreError:
        raise NotImplementedError


class OfCluster(Reported):
    """The master of one slot of a cluster."""

    def _ask(self, node: Place, patience: float) -> Place | None:
        ranges = _reply(open_connection, self._address, node, patience, "CLUSTER", "SLOTS")
        masters = [(first, last, _place(master, node)) for first, last, master, *_ in ranges]
        # Any node may be gone by the next time: the ones that the URL names as well.
        self._asked = tuple(dict.fromkeys([*(place for _, _, place in masters), *self._address.places]))
        return next((place for first, last, place in masters if first <= self._slot <= last), None)

    def _unknown(self) -> StoreError:
        return StoreUnavailableError(
            f"Redis {self._address.name} has no master for the slot of these jobs: see `redis-cli --cluster check`,"
            " or try again after the failover"
        )


class OfSentinel(Reported):
    """The master of a service that sentinels watch."""

    def _ask(self, node: Place, patience: float) -> Place | None:
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
        told = _reply(open_to_sentinel, self._address, node, patience, *command)
        return None if told is None else _place(told, node)

    def _unknown(self) -> StoreError:
        return StoreError(
            f"Redis {self._address.name} is not known there: write the name of the service as in `sentinel monitor`"
        )


def locator_of(address: Address, prefix: str, timeout: float) -> Locator:
    """Return who knows where the server of this address is, for the keys with this prefix."""
    if address.kind is Kind.CLUSTER:
        return OfCluster(address, timeout, key_slot(prefix.encode()))
    if address.kind is Kind.SENTINEL:
        return OfSentinel(address, timeout, 0)
    return Locator(address)


def _reply(
    open_to: Callable[[Address, Place, float], Wire],
    address: Address,
    node: Place,
    patience: float,
    *command: str,
) -> Any:
    with closing(open_to(address, node, patience)) as connection:
        return connection.ask(*command)


def _place(told: Iterable[Any], asked: Place) -> Place:
    """Return the place that a node tells. One that does not know its own host is where it was asked."""
    host, port, *_ = told
    name = host.decode() if host else ""
    return Place(asked.host if name in {"", "?"} else name, int(port))
