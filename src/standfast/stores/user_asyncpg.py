"""Connections of asyncpg, its own or a pool's. Our statements are in its own words."""

from collections.abc import Sequence
from typing import Any, Self

import asyncpg  # type: ignore[import-untyped]
from asyncpg.pool import PoolConnectionProxy  # type: ignore[import-untyped]

from standfast.errors import ConfigurationError
from standfast.stores.user_connection import Driver, Plain, TransactionState
from standfast.stores.verb import Bulk, Command, Query


class AsyncpgConnection(Plain):
    """A connection of asyncpg. It commits each statement by itself unless a transaction was begun."""

    is_async = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._begun: Any = None

    @property
    def driver(self) -> Any:
        """The connection itself, where a pool has lent it out."""
        return getattr(self._connection, "_con", self._connection)

    @property
    def standing(self) -> TransactionState:
        """Where the connection is with its transaction; that it has failed only the server tells."""
        try:
            closed = self._connection.is_closed()
        except asyncpg.InterfaceError:
            closed = True  # given back to its pool
        if closed:
            return TransactionState.CLOSED
        return TransactionState.OPEN if self._connection.is_in_transaction() else TransactionState.ABSENT

    async def ask(self, statements: Sequence[Query | Command]) -> list[Any]:
        """Run statements one after the other."""
        return [await self._answer(statement) for statement in statements]

    async def ask_bulk(self, statement: Bulk) -> int:
        """Run a statement once for each row; return how many rows it changed in all."""
        return sum([await self._count(statement.sql, row) for row in statement.rows])

    async def begin(self) -> Self:
        """Begin as its own transaction() does, so that the user may nest others."""
        if getattr(self._connection, "_top_xact", None) is not None:
            raise ConfigurationError(
                "this connection is inside a transaction() of its own, which alone can commit: begin"
                " ctx.transaction outside of it"
            )
        self.has_begun = self.standing is TransactionState.ABSENT
        if self.has_begun:
            self._begun = self._connection.transaction()
            await self._begun.start()
        return self

    async def commit(self) -> None:
        """Commit."""
        await (self._begun.commit() if self._begun is not None else self._connection.execute("COMMIT"))

    async def rollback(self) -> None:
        """Roll back what is open."""
        await (self._begun.rollback() if self._begun is not None else self._connection.execute("ROLLBACK"))

    async def close(self) -> None:
        """Close it without a word to the server."""
        self._connection.terminate()

    async def _answer(self, statement: Query | Command) -> Any:
        if isinstance(statement, Command):
            return await self._count(statement.sql, statement.params)
        rows = await self._connection.fetch(statement.sql, *statement.params, record_class=asyncpg.Record)
        return [tuple(row) for row in rows]

    async def _count(self, sql: str, params: Sequence[Any]) -> int:
        tag: str = await self._connection.execute(sql, *params)  # such as INSERT 0 1
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else -1


def port_to(connection: Any) -> Driver | None:
    """Return the port to what asyncpg gave, None where that is no connection."""
    return (
        AsyncpgConnection(connection) if isinstance(connection, asyncpg.Connection | PoolConnectionProxy) else None
    )
