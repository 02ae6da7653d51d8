"""Django's connections. Its books stay its own, `atomic` and all; the driver's connection runs our statements."""

import sqlite3
from typing import Any

from django.db import connections  # type: ignore[import-untyped]
from django.db.backends.base.base import BaseDatabaseWrapper  # type: ignore[import-untyped]
from django.db.transaction import Atomic  # type: ignore[import-untyped]
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

from standfast.errors import ConfigurationError
from standfast.stores.user_connection import UserConnection, UserCursor, user_cursor


class PostgresDjangoConnection:
    """What `django.db.connection` and `connections[alias]` are."""

    is_async = False

    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        self.has_begun = False
        self._wrapper = wrapper
        self._block: Atomic | None = None

    async def enter(self) -> UserCursor:
        """Open the connection if need be; the transaction is `atomic`'s or the user's own."""
        self._check()
        if self._wrapper.needs_rollback:
            raise ConfigurationError(
                "a query has failed in this atomic block, which Django will roll back: enqueue after it, or give"
                " what may fail an atomic block of its own"
            )
        self._wrapper.ensure_connection()
        return user_cursor(self._wrapper.connection, "Django")

    async def begin(self) -> UserCursor:
        """Open an `atomic` block, which has to be the outermost; without autocommit there is no need of one."""
        self._check()
        if self._wrapper.in_atomic_block or self._wrapper.get_autocommit():
            block = Atomic(self._wrapper.alias, savepoint=True, durable=True)
            try:
                block.__enter__()
            except RuntimeError as error:
                raise ConfigurationError(
                    "this connection is inside an atomic block, which alone can commit: begin ctx.transaction"
                    " outside of it"
                ) from error
            self._block, self.has_begun = block, True
        return await self.enter()

    async def commit(self) -> None:
        """Commit as the end of the block does."""
        block, self._block = self._block, None
        if block is None:
            self._wrapper.commit()
        else:
            block.__exit__(None, None, None)

    async def rollback(self) -> None:
        """Roll back as an exception in the block does."""
        block, self._block = self._block, None
        if block is None:
            self._wrapper.rollback()
        else:
            undone = _UndoneError()
            block.__exit__(type(undone), undone, None)

    async def note_loss(self) -> None:
        """Let Django look at the connection before it uses it for another request."""
        self._wrapper.errors_occurred = True

    def _check(self) -> None:
        wrapper = self._wrapper
        if wrapper.vendor != "postgresql":
            raise ConfigurationError(
                f"a transaction of Django's {wrapper.vendor} database {wrapper.alias!r} cannot be joined by a"
                " PostgreSQL store: give the connection of the store's own database"
            )
        wrapper.validate_thread_sharing()


class _UndoneError(Exception):
    """Tells an `atomic` block to roll back."""


def port_to(connection: Any) -> UserConnection | None:
    """Return the port to what Django gave, None where that is no connection."""
    if isinstance(connection, ConnectionProxy):
        connection = connections[connection.alias]
    return PostgresDjangoConnection(connection) if isinstance(connection, BaseDatabaseWrapper) else None


# Django's connections to SQLite. Imported only where one is given: Django is not required.


class SqliteDjangoConnection:
    """What `django.db.connection` and `connections[alias]` are, inside `atomic`."""

    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        if wrapper.vendor != "sqlite":
            raise ConfigurationError(
                f"a transaction of Django's {wrapper.vendor} database {wrapper.alias!r} cannot be joined by a"
                " SQLite store: give the connection of the store's own file"
            )
        wrapper.validate_thread_sharing()
        self._wrapper = wrapper

    @property
    def driver(self) -> Any:
        """The connection of sqlite3, opened if need be."""
        self._wrapper.ensure_connection()
        return self._wrapper.connection

    def cursor(self) -> sqlite3.Cursor:
        """Return a cursor of sqlite3 itself: Django's would log and translate."""
        return sqlite3.Connection.cursor(self.driver, sqlite3.Cursor)

    def enter(self) -> None:
        """Refuse a transaction that Django will roll back anyway; its books need nothing else."""
        if self._wrapper.needs_rollback:
            raise ConfigurationError(
                "a query has failed in this atomic block, which Django will roll back: enqueue after it, or give"
                " what may fail an atomic block of its own"
            )

    def refuse_shared(self) -> None:
        """Refuse to commit: Django would not know of it, and its next atomic block would fail."""
        raise ConfigurationError(
            "ctx.transaction cannot commit through Django's connection to SQLite: give it a connection of its own,"
            " sqlite3.connect(...), to the same file"
        )

    def note_rollback(self) -> None:
        """Let Django refuse all queries until the end of its atomic block."""
        self._wrapper.needs_rollback = self._wrapper.in_atomic_block

    def commit(self) -> None:
        """Never called: nothing is begun here."""
        self._wrapper.commit()

    def rollback(self) -> None:
        """Never called: nothing is begun here."""
        self._wrapper.rollback()


def django_connection(connection: Any) -> SqliteDjangoConnection | None:
    """Return the port to what Django gave, None where that is no connection."""
    if isinstance(connection, ConnectionProxy):
        connection = connections[connection.alias]
    return SqliteDjangoConnection(connection) if isinstance(connection, BaseDatabaseWrapper) else None
