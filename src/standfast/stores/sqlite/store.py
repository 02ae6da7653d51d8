"""The SQLite store: its verbs in one class, and the open store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast.model.clock import Clock, SystemClock
from standfast.stores.backend import Backend
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


class SqliteStore(
    RecordVerbs, MemoVerbs, ViewVerbs, ClaimVerbs, FinishVerbs, SupervisionVerbs, BurialVerbs, ForgettingVerbs
):
    """Every verb of `Store`, as statements for SQLite."""

    lease_clock = LeaseClock.BOOT

    def __init__(self, clock: Clock, namespace: str | None = None) -> None:
        super().__init__(load_statements(namespace), clock)


class SqliteBackend(Backend):
    """Jobs in a file, shared by every process of this machine that opens it. The first verb opens it."""

    _engine: Callable[[], Engine]

    def __init__(self, path: str | Path, *, clock: Clock | None = None, namespace: str | None = None) -> None:
        self._files = Files.of(path)
        super().__init__(str(self._files.jobs))
        self._namespace = namespace
        self.verbs = SqliteStore(clock or SystemClock(), namespace)
        self.bell: SqliteBell = SqliteBell(
            self._files.bell,
            lambda previous: self._engine().renew_reader(previous),
            load_statements(namespace)["last_arrival"],
        )

    def _open(self) -> Engine:
        return Engine(self._files, self._namespace, self.bell.ring)

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the user's own."""
        return join(connection, self._home)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction on an async connection of the user's own."""
        return ajoin(connection, self._home)

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
