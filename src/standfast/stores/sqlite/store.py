"""The verbs of the SQLite store, put together."""

from pathlib import Path
from typing import Any, TypeVar

from standfast.model.clock import Clock, SystemClock
from standfast.stores.backend import PerProcess
from standfast.stores.sqlite.claim import ClaimVerbs
from standfast.stores.sqlite.connect import Files
from standfast.stores.sqlite.engine import Engine
from standfast.stores.sqlite.finish import FinishVerbs
from standfast.stores.sqlite.notify import SqliteBell
from standfast.stores.sqlite.records import MemoVerbs, RecordVerbs
from standfast.stores.sqlite.statements import load_statements
from standfast.stores.sqlite.supervise import BurialVerbs, ForgettingVerbs, SupervisionVerbs
from standfast.stores.sqlite.transactions import AsyncJoined, Home, Joined, ajoin, join
from standfast.stores.sqlite.views import ViewVerbs
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Verb


class SqliteStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for SQLite."""

    lease_clock = LeaseClock.BOOT

    def __init__(self, clock: Clock, namespace: str | None = None) -> None:
        super().__init__(load_statements(namespace), clock)


# An open SQLite store.
#
# Nothing is opened before the first verb, and nothing stays open across a fork: each process has an engine of its
# own.

T = TypeVar("T")


class SqliteBackend:
    """Jobs in a file, shared by every process of this machine that opens it."""

    def __init__(self, path: str | Path, *, clock: Clock | None = None, namespace: str | None = None) -> None:
        self._files = Files.of(path)
        self._namespace = namespace
        self.verbs = SqliteStore(clock or SystemClock(), namespace)
        """The verbs of this store."""
        self.bell = SqliteBell(
            self._files.bell,
            lambda previous: self._engine().renew_reader(previous),
            load_statements(namespace)["last_arrival"],
        )
        """The bell of this store."""
        self._engine = PerProcess(lambda: Engine(self._files, namespace, self.bell.ring), str(self._files.jobs))

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        return self._engine().run(verb)

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction, in a thread, and return its answer."""
        return await self._engine().arun(verb)

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Run the verb in the transaction of the user's own connection, which nobody but the user commits."""
        return self.join(connection).run(verb)

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Do as `run_in` does, for an async connection."""
        return await self.ajoin(connection).run(verb)

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the user's own."""
        return join(connection, self._home)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction on an async connection of the user's own."""
        return ajoin(connection, self._home)

    def close(self) -> None:
        """Let go of connections and threads; running verbs end first."""
        self._engine.close()

    @property
    def _home(self) -> Home:
        engine = self._engine()
        return Home(
            path=self._files.jobs,
            namespace=self._namespace,
            prepare=engine.prepare,
            is_prepared=lambda: engine.is_prepared,
            ring=self.bell.ring,
            announce=self.bell.announce,
        )
