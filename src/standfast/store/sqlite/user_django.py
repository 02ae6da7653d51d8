"""Django's connections to SQLite. Imported only where one is given: Django is not required."""

import sqlite3
from typing import Any

from django.db import connections  # type: ignore[import-untyped]
from django.db.backends.base.base import BaseDatabaseWrapper  # type: ignore[import-untyped]
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

from standfast.errors import ConfigurationError


class DjangoConnection:
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


def django_connection(connection: Any) -> DjangoConnection | None:
    """Return the port to what Django gave, None where that is no connection."""
    if isinstance(connection, ConnectionProxy):
        connection = connections[connection.alias]
    return DjangoConnection(connection) if isinstance(connection, BaseDatabaseWrapper) else None
