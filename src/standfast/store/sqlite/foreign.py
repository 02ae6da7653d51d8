"""Connections that are not ours: the user's own, of sqlite3, SQLAlchemy or Django, behind one small port."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from standfast.store.foreign import comes_from, no_connection
from standfast.store.sqlite.steps import Executed

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

_KINDS = "a sqlite3.Connection, or a Connection or Session of SQLAlchemy, sync or async, or Django's connection"


class Foreign(Protocol):
    """A connection of the user's own, used from the thread that it belongs to."""

    @property
    def driver(self) -> Any:
        """The driver's own connection: sqlite3's, or one that has the same attributes."""
        ...

    def cursor(self) -> Any:
        """Return a new cursor of the driver."""
        ...

    def enter(self) -> None:
        """Let the layers above the driver know that the connection takes part in a transaction from now on."""
        ...

    def refuse_shared(self) -> None:
        """Raise ConfigurationError where its commit would not end the transaction."""
        ...

    def commit(self) -> None:
        """Commit as the user would."""
        ...

    def rollback(self) -> None:
        """Roll back as the user would."""
        ...

    def note_rollback(self) -> None:
        """Let the layers above the driver know that the transaction was rolled back below them."""
        ...


class Sqlite3Connection:
    """A plain connection of the sqlite3 module."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.driver = connection

    def cursor(self) -> sqlite3.Cursor:
        """Return a cursor of sqlite3 itself, whatever a subclass would make."""
        return sqlite3.Connection.cursor(self.driver, sqlite3.Cursor)

    def enter(self) -> None:
        """Do nothing: there are no layers above."""

    def refuse_shared(self) -> None:
        """Refuse nothing: a commit here is SQLite's own."""

    def note_rollback(self) -> None:
        """Do nothing: there are no layers above."""

    def commit(self) -> None:
        """Commit; with autocommit=True the method of that name would do nothing."""
        if is_autocommit(self.driver):
            self.cursor().execute("COMMIT")
        else:
            sqlite3.Connection.commit(self.driver)

    def rollback(self) -> None:
        """Roll back what is open."""
        if not is_autocommit(self.driver):
            sqlite3.Connection.rollback(self.driver)
        elif self.driver.in_transaction:
            self.cursor().execute("ROLLBACK")


class Hand:
    """Runs our statements on a connection of the user's own."""

    def __init__(self, foreign: Foreign) -> None:
        self._foreign = foreign

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Executed:
        """Run a statement."""
        cursor = self._foreign.cursor()
        cursor.execute(sql, parameters)
        executed: Executed = cursor
        return executed

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Executed:
        """Run a statement once for each row of parameters."""
        cursor = self._foreign.cursor()
        cursor.executemany(sql, rows)
        executed: Executed = cursor
        return executed


def awaited(connection: Any) -> "AsyncConnection | AsyncSession | None":
    """Return what is to be awaited of a connection; None where it is none of that kind."""
    if not comes_from("sqlalchemy", connection):
        return None
    from standfast.store.alchemy import async_owner  # noqa: PLC0415 - only who uses it loads it

    return async_owner(connection)


def foreign(connection: Any) -> Foreign:
    """Return the port to a connection. Raises ConfigurationError for one that cannot be used."""
    if isinstance(connection, sqlite3.Connection):
        return Sqlite3Connection(connection)
    found: Foreign | None = None
    if comes_from("sqlalchemy", connection):
        from standfast.store.sqlite.user_alchemy import alchemy_connection  # noqa: PLC0415 - only who uses it loads it

        found = alchemy_connection(connection)
    elif comes_from("django", connection):
        from standfast.store.sqlite.user_django import django_connection  # noqa: PLC0415 - only who uses it loads it

        found = django_connection(connection)
    if found is None:
        raise no_connection(connection, _KINDS)
    return found


def is_autocommit(driver: Any) -> bool:
    """Tell whether the connection has autocommit=True, which Python knows since 3.12."""
    return getattr(driver, "autocommit", None) is True


def begins_by_itself(driver: Any) -> bool:
    """Tell whether the driver opens transactions, so that the user's commit() and rollback() end ours."""
    return not is_autocommit(driver) and driver.isolation_level is not None


@contextmanager
def plain_rows(driver: Any) -> Iterator[None]:
    """Let rows be tuples and texts be str meanwhile, whatever the user made of them."""
    row_factory, text_factory = driver.row_factory, driver.text_factory
    driver.row_factory, driver.text_factory = None, str
    try:
        yield
    finally:
        driver.row_factory, driver.text_factory = row_factory, text_factory
