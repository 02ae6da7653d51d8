"""The PostgreSQL store: its verbs in one class, the open store, and locks that a connection holds.

The server frees such a lock the moment that its connection dies. A caller waits for it in the server's own queue, one
slice of time after the other: a call that takes too long is no call.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import psycopg

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock
from standfast.stores.backend import AsyncJoined, Backend, Joined
from standfast.stores.postgres.claim import ClaimVerbs
from standfast.stores.postgres.connect import libpq_parameters
from standfast.stores.postgres.engine import Engine
from standfast.stores.postgres.finish import FinishVerbs
from standfast.stores.postgres.notify import PostgresBell, sounds
from standfast.stores.postgres.readiness import OverdueError, go_through
from standfast.stores.postgres.records import MemoVerbs, RecordVerbs
from standfast.stores.postgres.statements import load_statements
from standfast.stores.postgres.supervise import BurialVerbs, ForgettingVerbs, SupervisionVerbs
from standfast.stores.postgres.translate import translated
from standfast.stores.postgres.url import Address, parse_address
from standfast.stores.postgres.views import ViewVerbs
from standfast.stores.postgres.wire import Call, Wire, call
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Access, Last, Query, Steps, Verb

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
                await go_through(wire.ready, wire.asking(self._taking(span)), until)
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


class PostgresStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for PostgreSQL. `clock` overrides the server's own time."""

    lease_clock = LeaseClock.SERVER

    def __init__(self, schema: str, clock: Clock | None = None) -> None:
        super().__init__(load_statements(schema), clock)


TIMEOUT = 10.0
"""Seconds after which a call gives up."""


class PostgresBackend(Backend):
    """Jobs in a schema of a PostgreSQL database, shared by every process that can reach it.

    The first verb connects.
    """

    _engine: Callable[[], Engine]

    def __init__(
        self, url: str, *, clock: Clock | None = None, namespace: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._address = parse_address(url, namespace)
        super().__init__(self._address.name)
        libpq_parameters(self._address)
        self.verbs: PostgresStore = PostgresStore(self._address.schema, clock)
        self._timeout = timeout
        self._sounds = sounds(self._address.schema)
        self.bell: PostgresBell = PostgresBell(
            lambda tone: self._engine().ring(tone),
            lambda sound: self._engine().listen(sound),
            self._sounds,
            pooled=self._address.pooled,
        )

    def _open(self) -> Engine:
        return Engine(self._address, self._timeout, self._sounds, self.verbs.forget_server)

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the user's own."""
        from standfast.stores.postgres.transactions import join  # noqa: PLC0415 - only who has one loads it

        return join(connection, self._engine().home)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction on an async connection of the user's own."""
        from standfast.stores.postgres.transactions import ajoin  # noqa: PLC0415 - only who has one loads it

        return ajoin(connection, self._engine().home)

    def session_line(self, name: str) -> SessionLine:
        """Return a connection of its own for a lock of the server's. Raises ConfigurationError behind a pooler."""
        return SessionLine(self._engine().connect, self._address, self._timeout, name)

    def session_holders(self, names: Sequence[str]) -> Verb[Mapping[str, str]]:
        """Return which locks are held by a session, by name, and in words who has them."""
        return session_holders(self._address.schema, names)
