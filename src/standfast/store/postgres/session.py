"""A lock of the server's own, on a connection of its own: the server frees it the moment that connection dies.

Who waits stands in the server's line, a slice of time after the other: a call that takes too long is no call.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import psycopg

from standfast.errors import ConfigurationError
from standfast.store.postgres.address import Address
from standfast.store.postgres.sql_files import load_statements
from standfast.store.postgres.translate import translated
from standfast.store.postgres.waiting import OverdueError
from standfast.store.postgres.wire import Call, Wire, call
from standfast.store.verb import Access, Last, Query, Steps, Verb

SLICE = 2.0
"""Seconds for which one call waits for the lock."""

Connect = Callable[[float], Wire]


def session_holders(schema: str, names: Sequence[str]) -> Verb[Mapping[str, str]]:
    """Return which locks are held by a session, by name, and in words who has them."""
    sql, numbers = load_statements(schema), {_number(schema, name): name for name in names}

    def steps() -> Steps[Mapping[str, str]]:
        rows = yield Last(Query(sql["session_lock_holders"], (list(numbers),)))
        return {
            numbers[lock]: f"session {process} of the server{f' from {client}' if client else ''}"
            for lock, process, client in rows
        }

    return Verb("session_holders", Access.READ, steps())


def _number(schema: str, name: str) -> int:
    digest = blake2b(f"standfast/{schema}/lock/{name}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


class SessionLine:
    """The connection that has one lock, or waits for it. One caller at a time takes; anyone may ask if it lives."""

    def __init__(self, connect: Connect, address: Address, timeout: float, name: str) -> None:
        if address.pooled:
            raise ConfigurationError(
                f"session=True needs a connection of its own to {address.name}, and ?pooler=transaction in the URL"
                " lends one for a transaction each: leave session out, or name the server itself in the URL"
            )
        self._connect = connect
        self._address = address
        self._timeout = timeout
        self._sql: Mapping[str, str] = load_statements(address.schema)
        self.number = _number(address.schema, name)
        """What the server knows the lock by."""
        self._wire: Wire | None = None
        self._using = threading.Lock()

    def take(self, within: float) -> bool:
        """Wait for the lock for so many seconds at most, or a slice; tell whether it is ours. Raises StoreError."""
        span, until = self._times(within)
        with translated(self._address, self._timeout):
            wire = self._opened(until)
            try:
                wire.ask(self._taking(span), until)
            except psycopg.errors.LockNotAvailable:
                return False
        return True

    async def atake(self, within: float) -> bool:
        """Do as `take` does, without blocking the event loop."""
        span, until = self._times(within)
        with translated(self._address, self._timeout):
            wire = await asyncio.get_running_loop().run_in_executor(None, self._opened, until)
            try:
                await wire.adrive(wire.asking(self._taking(span)), until)
            except psycopg.errors.LockNotAvailable:
                return False
        return True

    @property
    def is_open(self) -> bool:
        """Whether the connection lives, as far as this machine has heard."""
        with self._using:
            wire = self._wire
            if wire is None:
                return False
            try:
                wire.catch_up()  # the end of a server, or of the session there, is read here
            except psycopg.Error:
                return False
            return wire.is_open

    def leave(self) -> None:
        """Let others have the lock, and hang up. Whatever goes wrong with that, the server does it then."""
        with self._using:
            wire, self._wire = self._wire, None
        if wire is None:
            return
        try:
            if wire.settled:
                wire.ask([call(self._sql["leave_session_lock"], (self.number,))], time.monotonic() + SLICE)
        except (psycopg.Error, OverdueError):
            pass
        finally:
            wire.close()

    async def aleave(self) -> None:
        """Do as `leave` does, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.leave)

    def _opened(self, until: float) -> Wire:
        """Return a connection on which every call has ended: an interrupted call may have left a lock on it."""
        if self._wire is not None and not (self._wire.settled and self._wire.is_open):
            self._wire.close()
            self._wire = None
        if self._wire is None:
            self._wire = self._connect(until)
        return self._wire

    def _taking(self, span: float) -> Sequence[Call]:
        limit = call(self._sql["limit_lock_wait"], (f"{max(round(span * 1000), 1)}ms",))
        return limit, call(self._sql["take_session_lock"], (self.number,))

    def _times(self, within: float) -> tuple[float, float]:
        span = min(within, SLICE)
        return span, time.monotonic() + span + self._timeout
