"""Connections and sessions of SQLAlchemy, over psycopg, psycopg2 and asyncpg.

SQLAlchemy keeps the books, the driver's connection below runs our statements. What is said to SQLAlchemy is sync
code, which its async classes run for us.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from standfast.errors import ConfigurationError
from standfast.store.alchemy import async_owner, connection_of, refuse_shared, sync_owner
from standfast.store.postgres.foreign import Foreign, Hand, hand_of

T = TypeVar("T")


class AlchemyConnection:
    """A connection of SQLAlchemy, or a session and the connection that it uses."""

    def __init__(self, owner: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self.has_begun = False
        self._owner = owner

    async def enter(self) -> Hand:
        """Begin: what SQLAlchemy does not know of it would not commit."""
        return hand_of(await self._inside(_driver_of), "SQLAlchemy")

    async def begin(self) -> Hand:
        """Begin, unless the commit were not the owner's to do."""
        await self._inside(refuse_shared)
        self.has_begun = not await self._inside(_is_open)
        return await self.enter()

    async def commit(self) -> None:
        """Commit; a session writes what it still keeps before."""
        await self._inside(lambda owner: owner.commit())

    async def rollback(self) -> None:
        """Roll back, also where a connection is left that can do nothing else."""
        await self._inside(lambda owner: owner.rollback())

    async def note_loss(self) -> None:
        """Let SQLAlchemy open another connection after the rollback, as after a loss that it sees itself."""
        await self._inside(lambda owner: connection_of(owner).invalidate())

    async def _inside(self, work: Callable[[Connection | Session], T]) -> T:
        if not self.is_async:
            return work(self._owner)
        done: T = await self._owner.run_sync(work)
        return done


def port_to(connection: Any) -> Foreign | None:
    """Return the port to what SQLAlchemy gave, None where that is neither a connection nor a session."""
    if (owner := sync_owner(connection)) is not None:
        return AlchemyConnection(owner, is_async=False)
    if (awaited := async_owner(connection)) is not None:
        return AlchemyConnection(awaited, is_async=True)
    return None


def _is_open(owner: Connection | Session) -> bool:
    return owner.in_transaction()


def _driver_of(owner: Connection | Session) -> Any:
    """Return the driver's connection, in a transaction that SQLAlchemy knows of."""
    connection = connection_of(owner)
    dialect = connection.dialect
    if dialect.name != "postgresql":
        raise ConfigurationError(
            f"a transaction of {dialect.name}+{dialect.driver} cannot be joined by a PostgreSQL store: give a"
            " connection to the store's own database, by postgresql+psycopg:// or postgresql+asyncpg://"
        )
    if not connection.in_transaction():
        connection.begin()
    driver: Any = connection.connection.driver_connection
    if dialect.driver == "asyncpg" and not driver.is_in_transaction():
        connection.exec_driver_sql("SELECT 1")  # only with a statement of its own does it begin below as well
    return driver
