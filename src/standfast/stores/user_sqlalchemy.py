"""What SQLAlchemy gives: connections, and sessions on them, sync and async. Imported only where one is given."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, scoped_session

from standfast.errors import ConfigurationError
from standfast.stores.user_connection import UserConnection, UserCursor, user_cursor

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession


def sync_owner(given: Any) -> Connection | Session | None:
    """Return the connection or session that is given, or that a scope has; None where it is neither."""
    owner = given() if isinstance(given, scoped_session) else given
    return owner if isinstance(owner, Connection | Session) else None


def async_owner(given: Any) -> "AsyncConnection | AsyncSession | None":
    """Do the same for what has to be awaited."""
    if not any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in type(given).__mro__):
        return None
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session  # noqa: PLC0415 - see above

    owner = given() if isinstance(given, async_scoped_session) else given
    return owner if isinstance(owner, AsyncConnection | AsyncSession) else None


def connection_of(owner: Connection | Session) -> Connection:
    """Return the connection, or the one that the session uses."""
    return owner.connection() if isinstance(owner, Session) else owner


def refuse_shared(owner: Connection | Session) -> None:
    """Refuse a session on a connection whose transaction is not the session's own to commit."""
    if isinstance(owner, Session) and isinstance(owner.get_bind(), Connection):
        raise ConfigurationError(
            "this session is bound to a connection, and its commit may not end that one's transaction: give the"
            " connection, or a session that is bound to an engine"
        )


# Connections and sessions of SQLAlchemy, over psycopg, psycopg2 and asyncpg.
#
# SQLAlchemy keeps the books, the driver's connection below runs our statements. What is said to SQLAlchemy is sync
# code, which its async classes run for us.

T = TypeVar("T")


class PostgresAlchemyConnection:
    """A connection of SQLAlchemy, or a session and the connection that it uses."""

    def __init__(self, owner: Any, *, is_async: bool) -> None:
        self.is_async = is_async
        self.has_begun = False
        self._owner = owner

    async def enter(self) -> UserCursor:
        """Begin: what SQLAlchemy does not know of it would not commit."""
        return user_cursor(await self._inside(_driver_of), "SQLAlchemy")

    async def begin(self) -> UserCursor:
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


def port_to(connection: Any) -> UserConnection | None:
    """Return the port to what SQLAlchemy gave, None where that is neither a connection nor a session."""
    if (owner := sync_owner(connection)) is not None:
        return PostgresAlchemyConnection(owner, is_async=False)
    if (awaited := async_owner(connection)) is not None:
        return PostgresAlchemyConnection(awaited, is_async=True)
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


# Connections and sessions of SQLAlchemy. Imported only where one is given: SQLAlchemy is not required.

_DRIVERS = {"pysqlite", "aiosqlite"}


class SqliteAlchemyConnection:
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


def alchemy_connection(connection: Any) -> SqliteAlchemyConnection | None:
    """Return the port to what SQLAlchemy gave, None where that is neither a connection nor a session."""
    owner = sync_owner(connection)
    return None if owner is None else SqliteAlchemyConnection(owner)
