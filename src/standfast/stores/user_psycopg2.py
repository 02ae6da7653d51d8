"""Connections of psycopg2, by themselves or below SQLAlchemy or Django. It writes values into the statement."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

from psycopg2 import extensions  # type: ignore[import-untyped,import-not-found,unused-ignore]

from standfast.errors import ConfigurationError, ValueNotStoredError
from standfast.stores.user_connection import Driver, Plain, TransactionState
from standfast.stores.user_psycopg import standing_of
from standfast.stores.verb import Bulk, Command, Query

_PLACE = re.compile(r"\$(\d+)")
_UUID = 2950
_READERS = {
    oid: reader
    for reader in (extensions.BOOLEAN, extensions.INTEGER, extensions.LONGINTEGER, extensions.UNICODE)
    for oid in reader.values
} | {_UUID: extensions.UNICODE}
"""How our answers are read, by the numbers of their types, whatever the user has registered for them."""


@cache
def rewritten(sql: str) -> str:
    """Return a statement with its parameters as psycopg2 wants them: `%(1)s` for `$1`."""
    return _PLACE.sub(r"%(\1)s", sql.replace("%", "%%"))


class Psycopg2Connection(Plain):
    """A connection of psycopg2."""

    is_async = False

    def __init__(self, connection: Any) -> None:
        self.driver = connection

    @property
    def standing(self) -> TransactionState:
        """Where the connection is with its transaction."""
        return standing_of(self.driver)

    async def ask(self, statements: Sequence[Query | Command]) -> list[Any]:
        """Run statements one after the other."""
        return [self._answer(statement) for statement in statements]

    async def ask_bulk(self, statement: Bulk) -> int:
        """Run a statement once for each row; return how many rows it changed in all."""
        return sum(self._answer(Command(statement.sql, row)) for row in statement.rows)

    async def begin(self) -> Self:
        """Begin where the driver would not."""
        standing = self.standing
        self.has_begun = standing in {TransactionState.IDLE, TransactionState.ABSENT}
        if standing is TransactionState.ABSENT:
            self._answer(Command("BEGIN"))
        return self

    async def commit(self) -> None:
        """Commit, with autocommit too."""
        self._end("COMMIT")

    async def rollback(self) -> None:
        """Roll back what is open."""
        self._end("ROLLBACK")

    async def close(self) -> None:
        """Close it."""
        self.driver.close()

    def _end(self, word: str) -> None:
        """End the transaction; with autocommit the methods of the connection would do nothing."""
        if self.driver.autocommit:
            self._answer(Command(word))
        elif word == "COMMIT":
            self.driver.commit()
        else:
            self.driver.rollback()

    def _answer(self, statement: Query | Command) -> Any:
        with self.driver.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.string_types = _READERS
            named = {str(number): _written(value) for number, value in enumerate(statement.params, 1)}
            try:
                cursor.execute(rewritten(statement.sql), named)
            except ValueError as error:
                raise ValueNotStoredError(
                    "PostgreSQL cannot store a text of this call: a character is at fault"
                ) from error
            return cursor.fetchall() if isinstance(statement, Query) else cursor.rowcount


def _written(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def port_to(connection: Any) -> Driver | None:
    """Return the port to what psycopg2 gave, None where that is no connection."""
    if not isinstance(connection, extensions.connection):
        return None
    if connection.async_:
        raise ConfigurationError(
            "a connection that psycopg2 opened with async_ knows no transactions: open one without, or use psycopg"
        )
    return Psycopg2Connection(connection)
