"""Opens connections: with a limit on every wait, and without the retries of the library, which would exceed it."""

import sys
from typing import Any

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError
from redis.retry import Retry

from standfast.store.brief import refuse_foreign
from standfast.store.redis.address import Address, Login, Place
from standfast.store.redis.wire import Wire

Opened = tuple[Wire, Place, int]
"""A connection, where it leads, and how often the server had been lost before."""

_KINDS: dict[str, Any] = {"socket": UnixDomainSocketConnection, "plain": Connection, "tls": SSLConnection}


def open_connection(address: Address, place: Place, timeout: float) -> Wire:
    """Return a connection to the server at this place, logged in and at the database of the address."""
    return _open(address, place, address.login, timeout, db=address.db)


def open_to_sentinel(address: Address, place: Place, timeout: float) -> Wire:
    """Return a connection to one of the sentinels of the address."""
    return _open(address, place, address.sentinel_login, timeout, db=0)


def _open(address: Address, place: Place, login: Login, timeout: float, *, db: int) -> Wire:
    options: dict[str, Any] = {
        "db": db,
        "username": login.username,
        "password": login.password,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if place.path:
        kind, options["path"] = "socket", place.path
    else:
        kind = "tls" if address.tls else "plain"
        options |= {"host": place.host, "port": place.port, "socket_keepalive": True, **address.tls_options}
    connection = _KINDS[kind](**options)
    # By default the library tells the server its name and version, in two more round trips, and takes whatever is
    # answered for a refusal of that: also that nobody is let in at all.
    connection.driver_info = connection.lib_name = connection.lib_version = None
    handled = sys.exception()
    try:
        connection.connect()
    except RedisError as error:
        _refuse_foreign_behind(error, handled)
        raise
    return Wire(connection, timeout)


def _refuse_foreign_behind(error: RedisError, handled: BaseException | None) -> None:
    """Raise the TimeoutError of a signal handler that the library took for one of its socket.

    `handled` is the exception that was being handled before: it and those behind it are left out.
    """
    behind = error.__context__
    while behind is not None and behind is not handled:
        if isinstance(behind, TimeoutError) and not str(behind).endswith("timed out"):
            refuse_foreign(behind)
        behind = behind.__context__


def hang_up(opened: Opened) -> None:
    """Close what was opened for somebody who has left."""
    opened[0].close()
