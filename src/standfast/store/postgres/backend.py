"""An open PostgreSQL store.

Nothing is opened before the first verb, and nothing stays open across a fork: each process has an engine of its
own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from standfast.clock import Clock
from standfast.store.backend import AsyncJoined, Joined
from standfast.store.each_process import EachProcess
from standfast.store.postgres.address import parse_address
from standfast.store.postgres.bell import PostgresBell
from standfast.store.postgres.connect import libpq_parameters
from standfast.store.postgres.engine import Engine
from standfast.store.postgres.session import SessionLine, session_holders
from standfast.store.postgres.store import PostgresStore
from standfast.store.postgres.tones import sounds
from standfast.store.verb import Verb

T = TypeVar("T")

TIMEOUT = 10.0
"""Seconds after which a call gives up."""


class PostgresBackend:
    """Jobs in a schema of a PostgreSQL database, shared by every process that can reach it."""

    def __init__(
        self, url: str, *, clock: Clock | None = None, namespace: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._address = parse_address(url, namespace)
        libpq_parameters(self._address)
        self.verbs = PostgresStore(self._address.schema, clock)
        """The verbs of this store."""
        self._timeout = timeout
        self._sounds = sounds(self._address.schema)
        self.bell = PostgresBell(
            lambda tone: self._engine().ring(tone),
            lambda sound: self._engine().listen(sound),
            self._sounds,
            pooled=self._address.pooled,
        )
        """The bell of this store."""
        self._engine = EachProcess(
            lambda: Engine(self._address, timeout, self._sounds, self.verbs.forget_server), self._address.name
        )

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        return self._engine().run(verb)

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction, without blocking the event loop, and return its answer."""
        return await self._engine().arun(verb)

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Run the verb in the transaction of the user's own connection, which nobody but the user commits."""
        return self.join(connection).run(verb)

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Do as `run_in` does, for an async connection."""
        return await self.ajoin(connection).run(verb)

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the user's own."""
        from standfast.store.postgres.joined import join  # noqa: PLC0415 - only who has one loads it

        return join(connection, self._engine().home)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction on an async connection of the user's own."""
        from standfast.store.postgres.joined import ajoin  # noqa: PLC0415 - only who has one loads it

        return ajoin(connection, self._engine().home)

    def session_line(self, name: str) -> SessionLine:
        """Return a connection of its own for a lock of the server's. Raises ConfigurationError behind a pooler."""
        return SessionLine(self._engine().connect, self._address, self._timeout, name)

    def session_holders(self, names: Sequence[str]) -> Verb[Mapping[str, str]]:
        """Return which locks are held by a session, by name, and in words who has them."""
        return session_holders(self._address.schema, names)

    def close(self) -> None:
        """Let go of connections and threads; running verbs end first."""
        self._engine.close()
