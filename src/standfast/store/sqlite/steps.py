"""Runs the statements of a verb on a connection. Who calls owns the transaction."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from standfast.errors import StoreError, ValueNotStoredError
from standfast.store.verb import Bulk, Command, Query, Statement, Steps, follow

T = TypeVar("T")


class UndecodableTextError(StoreError):
    """A text in the file is no UTF-8. The connection reads it as bytes from now on: repeat the verb."""


class Executed(Protocol):
    """A statement that was run."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchall(self) -> list[Any]:
        """Return its rows."""
        ...


class Executor(Protocol):
    """Whatever runs statements on SQLite: a connection of our own, or our hand on a connection of the user's."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Executed:
        """Run a statement."""
        ...

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Executed:
        """Run a statement once for each row of parameters."""
        ...


def run_steps(connection: Executor, steps: Steps[T]) -> T:
    """Feed a verb the answers to its statements until it returns."""
    return follow(steps, partial(_answer, connection))


def _answer(connection: Executor, statement: Statement) -> Any:
    try:
        if isinstance(statement, Query):
            return connection.execute(statement.sql, statement.params).fetchall()
        if isinstance(statement, Bulk):
            return connection.executemany(statement.sql, statement.rows).rowcount
        if isinstance(statement, Command):
            return connection.execute(statement.sql, statement.params).rowcount
    except (OverflowError, UnicodeEncodeError) as error:
        # Values that Python can hold and SQLite cannot: integers over 64 bits, lone surrogates.
        raise _not_stored(error) from error
    except sqlite3.Error as error:
        if _is_unbindable(error):
            raise _not_stored(error) from error
        if "decode to UTF-8" in str(error) and isinstance(connection, sqlite3.Connection):
            connection.text_factory = _text_or_bytes  # from now on, as such a row stays
            raise UndecodableTextError(str(error)) from error
        raise
    raise TypeError(f"SQLite cannot run {statement!r}: it is of another store")


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Return a text; one that somebody damaged stays bytes, and fails its own row alone."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _not_stored(error: Exception) -> ValueNotStoredError:
    return ValueNotStoredError(f"SQLite cannot store a value of this call ({error})")


def _is_unbindable(error: sqlite3.Error) -> bool:
    """Tell whether a parameter was of a type without a place in SQLite, or over its limit of a billion bytes."""
    if isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError):
        # The module raises these by itself, without a code, for other mistakes too; its words alone tell.
        return "binding parameter" in str(error)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
