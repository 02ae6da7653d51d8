"""Connections and sessions of SQLAlchemy. Imported only where one is given: SQLAlchemy is not required."""

from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from standfast.errors import ConfigurationError
from standfast.store.alchemy import connection_of, refuse_shared, sync_owner

_DRIVERS = {"pysqlite", "aiosqlite"}


class AlchemyConnection:
    """A connection of SQLAlchemy, or a session and the connection that it uses."""

    def __init__(self, owner: Connection | Session) -> None:
        self._owner = owner

    @property
    def driver(self) -> Any:
        """The driver's own connection; SQLAlchemy may open another one after an error."""
        return self._connection.connection.driver_connection

    def cursor(self) -> Any:
        """Return a cursor of the driver; that of an async one waits by itself inside `run_sync`."""
        return self._connection.connection.cursor()

    def enter(self) -> None:
        """Begin: what SQLAlchemy does not know of it would not commit."""
        if not self._connection.in_transaction():
            self._connection.begin()

    def refuse_shared(self) -> None:
        """Refuse a session on a connection whose transaction is not the session's own to commit."""
        refuse_shared(self._owner)

    def commit(self) -> None:
        """Commit; a session writes what it still keeps before."""
        self._owner.commit()

    def rollback(self) -> None:
        """Roll back, also where a connection is left that can do nothing else."""
        self._owner.rollback()

    def note_rollback(self) -> None:
        """Let SQLAlchemy refuse all but the user's own rollback, and open another connection after it."""
        self._connection.invalidate()

    @property
    def _connection(self) -> Connection:
        connection = connection_of(self._owner)
        dialect = connection.dialect
        if dialect.name != "sqlite" or dialect.driver not in _DRIVERS:
            raise ConfigurationError(
                f"a transaction of {dialect.name}+{dialect.driver} cannot be joined by a SQLite store: give a"
                " connection to the store's own file, by sqlite:// or sqlite+aiosqlite://"
            )
        return connection


def alchemy_connection(connection: Any) -> AlchemyConnection | None:
    """Return the port to what SQLAlchemy gave, None where that is neither a connection nor a session."""
    owner = sync_owner(connection)
    return None if owner is None else AlchemyConnection(owner)
