"""Connections of psycopg 3, sync and async. Our statements are what its raw cursors take, `$1` and all.

Values are written as on connections of our own: as the statement says, not as psycopg would by their Python types.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from standfast.errors import ConfigurationError
from standfast.stores.postgres.wire import prepared
from standfast.stores.user_connection import Driver, Plain, TransactionState
from standfast.stores.verb import Bulk, Command, Query

_STANDINGS = {
    TransactionStatus.ACTIVE: TransactionState.OPEN,  # inside a pipeline of the user's; the server says what is wrong
    TransactionStatus.INTRANS: TransactionState.OPEN,
    TransactionStatus.INERROR: TransactionState.FAILED,
    TransactionStatus.UNKNOWN: TransactionState.CLOSED,
}


def standing_of(connection: Any) -> TransactionState:
    """Return where a connection of psycopg 2 or 3 is with its transaction."""
    if connection.closed:
        return TransactionState.CLOSED
    status = TransactionStatus(connection.info.transaction_status)
    if status is TransactionStatus.IDLE:
        return TransactionState.ABSENT if connection.autocommit else TransactionState.IDLE
    return _STANDINGS[status]


class _Text(bytes):
    """A value written as text."""

    __slots__ = ()


class _Binary(bytes):
    """A value written as the server keeps it."""

    __slots__ = ()


class _TextDumper(Dumper):
    format = Format.TEXT

    def dump(self, obj: bytes) -> bytes:
        return obj


class _BinaryDumper(_TextDumper):
    format = Format.BINARY


_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(_Text, _TextDumper)
_ADAPTERS.register_dumper(_Binary, _BinaryDumper)
_WRITTEN = {Format.TEXT: _Text, Format.BINARY: _Binary}


def _written(sql: str, params: Sequence[Any]) -> list[bytes | None]:
    way = prepared(sql)
    pairs = zip(way.dump(params), way.formats, strict=True)
    return [None if value is None else _WRITTEN[Format(format_)](value) for value, format_ in pairs]


class _Cursor(psycopg.RawCursor[TupleRow]):
    """A cursor that gives plain values in tuples, whatever the user makes of them."""

    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class _AsyncCursor(psycopg.AsyncRawCursor[TupleRow]):
    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class _Psycopg(Plain, ABC):
    """What both kinds of connection have in common: all but `await`."""

    is_async: bool

    def __init__(self, connection: Any) -> None:
        self.driver = connection
        self._is_piped = connection._pipeline is not None  # noqa: SLF001 - it says so nowhere else

    @property
    def standing(self) -> TransactionState:
        """Where the connection is with its transaction."""
        return standing_of(self.driver)

    async def ask(self, statements: Sequence[Query | Command]) -> list[Any]:
        """Run statements in one round trip, in a pipeline."""
        if len(statements) > 1 and psycopg.Pipeline.is_supported():
            return await self._pipelined(statements)
        return [await self._answer(await self._sent(statement), statement) for statement in statements]

    async def ask_bulk(self, statement: Bulk) -> int:
        """Run a statement once for each row; return how many rows it changed in all."""
        cursor = self._cursor()
        rows = [_written(statement.sql, row) for row in statement.rows]
        await self._done(cursor.executemany(statement.sql, rows))
        return int(cursor.rowcount)

    async def begin(self) -> Self:
        """Begin where the driver would not; refuse what only the user's own block can commit."""
        if getattr(self.driver, "_num_transactions", 0):
            raise ConfigurationError(
                "this connection is inside a block of its own transaction(), which alone can commit: begin"
                " ctx.transaction outside of it"
            )
        standing = self.standing
        self.has_begun = standing in {TransactionState.IDLE, TransactionState.ABSENT}
        if standing is TransactionState.ABSENT:
            await self._sent(Command("BEGIN"))
        return self

    async def commit(self) -> None:
        """Commit, with autocommit too."""
        await self._done(self.driver.commit())

    async def rollback(self) -> None:
        """Roll back what is open."""
        await self._done(self.driver.rollback())

    async def close(self) -> None:
        """Close it."""
        await self._done(self.driver.close())

    async def _sent(self, statement: Query | Command) -> Any:
        values = _written(statement.sql, statement.params)
        return await self._done(self._cursor().execute(statement.sql, values))

    async def _answer(self, cursor: Any, statement: Query | Command) -> Any:
        return await self._done(cursor.fetchall()) if isinstance(statement, Query) else cursor.rowcount

    @abstractmethod
    def _cursor(self) -> Any: ...

    @abstractmethod
    async def _done(self, call: Any) -> Any:
        """Return what a call to the driver answered."""

    @abstractmethod
    async def _pipelined(self, statements: Sequence[Query | Command]) -> list[Any]: ...


class PsycopgConnection(_Psycopg):
    """A sync connection: whatever is called is done when it returns."""

    is_async = False

    @property
    def is_cut_short(self) -> bool:
        """Whether answers are still to come: psycopg cancels a call on the server for a KeyboardInterrupt only."""
        line = self.driver.pgconn
        busy = line.transaction_status == TransactionStatus.ACTIVE or line.pipeline_status
        return bool(busy) and not self._is_piped

    def _cursor(self) -> _Cursor:
        return _Cursor(self.driver, row_factory=tuple_row)

    async def _done(self, call: Any) -> Any:
        return call

    async def _pipelined(self, statements: Sequence[Query | Command]) -> list[Any]:
        with self.driver.pipeline() as pipeline:
            cursors = [await self._sent(statement) for statement in statements]
            pipeline.sync()
        return [await self._answer(*pair) for pair in zip(cursors, statements, strict=True)]


class AsyncPsycopgConnection(_Psycopg):
    """An async connection."""

    is_async = True

    def _cursor(self) -> _AsyncCursor:
        return _AsyncCursor(self.driver, row_factory=tuple_row)

    async def _done(self, call: Any) -> Any:
        return await call

    async def _pipelined(self, statements: Sequence[Query | Command]) -> list[Any]:
        async with self.driver.pipeline() as pipeline:
            cursors = [await self._sent(statement) for statement in statements]
            await pipeline.sync()
        return [await self._answer(*pair) for pair in zip(cursors, statements, strict=True)]


def port_to(connection: Any) -> Driver | None:
    """Return the port to what psycopg gave, None where that is no connection."""
    if isinstance(connection, psycopg.Connection):
        return PsycopgConnection(connection)
    return AsyncPsycopgConnection(connection) if isinstance(connection, psycopg.AsyncConnection) else None
