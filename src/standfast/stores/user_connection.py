"""Connections that are not ours: what they are, and how those that cannot be used are refused."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from importlib import import_module
from typing import Any, Protocol, Self

from standfast.errors import ConfigurationError
from standfast.stores.verb import Bulk, Command, Query


def comes_from(package: str, thing: Any) -> bool:
    """Tell whether the object's class, or one it is derived from, comes from a package; nothing is imported."""
    return any(kind.__module__.partition(".")[0] == package for kind in type(thing).__mro__)


def kind_of(thing: Any) -> str:
    """Return what something is, for a message."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def no_connection(thing: Any, kinds: str) -> ConfigurationError:
    """Return the error for something that is none of the kinds through which a transaction can be joined."""
    return ConfigurationError(f"a transaction is joined through {kinds}, not through {kind_of(thing)}")


def to_be_awaited(connection: Any) -> ConfigurationError:
    """Return the error for an async connection that was given to sync code."""
    return ConfigurationError(
        f"your {type(connection).__name__} has to be awaited: use aenqueue and aenqueue_many, or async with"
        " ctx.transaction"
    )


def not_awaited(connection: Any) -> ConfigurationError:
    """Return the error for a sync connection that was given to async code."""
    return ConfigurationError(
        f"your {type(connection).__name__} cannot be awaited, and the event loop would wait for the database: use"
        " enqueue and enqueue_many, or with ctx.transaction; aenqueue needs an async connection"
    )


# Connections that are not ours: the user's own, of whatever library, behind two small ports.
#
# A `UserConnection` is the connection as its owner sees it, with whatever keeps books about its transaction. A
# `UserCursor` runs our statements on the driver's connection below. Both are written as async code; those of sync
# libraries never wait, so that one code serves both worlds.

_DRIVERS = ("psycopg", "asyncpg", "psycopg2")
_LAYERS = ("sqlalchemy", "django")
_KINDS = (
    "a connection of psycopg, psycopg2 or asyncpg, a Connection or Session of SQLAlchemy, sync or async, or"
    " Django's connection"
)


class TransactionState(Enum):
    """Where a connection is with its transaction, as far as its driver knows."""

    OPEN = auto()
    IDLE = auto()
    """None is open, and the driver opens one at the next statement."""
    ABSENT = auto()
    """None is open, and the driver opens none: autocommit."""
    FAILED = auto()
    """A statement failed; only a rollback helps."""
    CLOSED = auto()


class UserCursor(Protocol):
    """Runs our statements on the connection of a driver."""

    @property
    def driver(self) -> Any:
        """The driver's own connection, the same object as long as it lasts."""
        ...

    @property
    def standing(self) -> TransactionState:
        """Where the connection is with its transaction."""
        ...

    async def ask(self, statements: Sequence[Query | Command]) -> list[Any]:
        """Run statements in order, in one round trip where the driver can; return the answer of each."""
        ...

    async def ask_bulk(self, statement: Bulk) -> int:
        """Run a statement once for each row; return how many rows it changed in all."""
        ...

    async def rollback(self) -> None:
        """Roll back below all books: only where the transaction is of our own making."""
        ...

    @property
    def is_cut_short(self) -> bool:
        """Whether an exception interrupted a call before all answers were read: the next call would get them."""
        ...

    async def close(self) -> None:
        """Close the driver's connection, even in the middle of a call."""
        ...


class UserConnection(Protocol):
    """A connection of the user's own, used from the thread that it belongs to."""

    @property
    def is_async(self) -> bool:
        """Whether it can be used by `await` only."""
        ...

    async def enter(self) -> UserCursor:
        """Let the layers above the driver know that the connection takes part in a transaction from now on."""
        ...

    async def begin(self) -> UserCursor:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over.

        Raises ConfigurationError where its commit would not end the transaction.
        """
        ...

    @property
    def has_begun(self) -> bool:
        """Whether `begin` found no transaction open."""
        ...

    async def commit(self) -> None:
        """Commit as the user would."""
        ...

    async def rollback(self) -> None:
        """Roll back as the user would."""
        ...

    async def note_loss(self) -> None:
        """Let the layers above the driver know that the line is lost: they did not see it happen."""
        ...


class Driver(UserCursor, UserConnection, Protocol):
    """A driver's own connection, with nothing above it: both ports in one."""


class Plain:
    """What the connections of drivers share."""

    has_begun = False

    @property
    def is_cut_short(self) -> bool:
        """Never: this driver reads all answers of a call before an exception leaves it."""
        return False

    async def enter(self) -> Self:
        """Do nothing: there are no layers above."""
        return self

    async def note_loss(self) -> None:
        """Do nothing: there are no layers above."""


def user_connection(connection: Any) -> UserConnection:
    """Return the port to a connection. Raises ConfigurationError for one that cannot be used."""
    found: UserConnection | None = _port_to(connection, _DRIVERS + _LAYERS)
    if found is None:
        raise no_connection(connection, _KINDS)
    return found


def user_cursor(driver: Any, layer: str) -> UserCursor:
    """Return the hand on the connection of a driver, which a layer above it keeps."""
    found: Driver | None = _port_to(driver, _DRIVERS)
    if found is None:
        raise ConfigurationError(
            f"{layer} works through {kind_of(driver)} here, which cannot be joined: let it use psycopg or asyncpg"
        )
    return found


def _port_to(connection: Any, libraries: Iterable[str]) -> Any:
    """Return the port to a connection of one of these libraries; only the module about that one is loaded."""
    for library in libraries:
        if comes_from(library, connection):
            return import_module(f"standfast.stores.user_{library}").port_to(connection)
    return None
