"""The connections of one lane: a bounded number, used again, each looked at before anything is sent on it."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import ConnectionError as RedisConnectionError

from holdfast.errors import StoreUnavailableError
from holdfast.store.redis.address import Address, Place
from holdfast.store.redis.connect import Wire, open_connection
from holdfast.store.redis.whereabouts import Whereabouts


class Pool:
    """At most `size` connections to where the server is."""

    def __init__(self, address: Address, where: Whereabouts, size: int, timeout: float) -> None:
        self._address = address
        self._where = where
        self._size = size
        self._timeout = timeout
        self._free = threading.BoundedSemaphore(size)
        self._idle: deque[tuple[Place, Wire]] = deque()

    @contextmanager
    def lend(self) -> Iterator[Wire]:
        """Lend a connection that nobody else uses; after an error it is not used again."""
        if not self._free.acquire(timeout=self._timeout):
            raise StoreUnavailableError(
                f"all {self._size} connections of this process to Redis {self._address.name} were in use for over"
                f" {self._timeout:g} s: call from fewer threads at once, or try again"
            )
        try:
            place = self._where.find()
            connection = self._usable_idle(place) or open_connection(self._address, place, self._timeout)
            try:
                yield connection
            except BaseException:
                connection.disconnect()
                raise
            self._idle.append((place, connection))
        finally:
            self._free.release()

    def clear(self) -> None:
        """Close what nobody uses now."""
        while self._idle:
            with_nobody = self._take()
            if with_nobody is not None:
                with_nobody[1].disconnect()

    def _usable_idle(self, place: Place) -> Wire | None:
        while (taken := self._take()) is not None:
            opened_at, connection = taken
            if opened_at == place and not _is_spoilt(connection):
                return connection
            connection.disconnect()
        return None

    def _take(self) -> tuple[Place, Wire] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _is_spoilt(connection: Wire) -> bool:
    """Tell whether the server has closed the connection, or said something on it that nobody asked for."""
    try:
        return connection.can_read()
    except (RedisConnectionError, OSError):
        return True
