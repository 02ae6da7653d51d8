"""What SQLAlchemy gives: connections, and sessions on them, sync and async. Imported only where one is given."""

from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, scoped_session

from standfast.errors import ConfigurationError

if TYPE_CHECKING:  # the async classes need greenlet, which those who use the others may not have
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
