"""Opens connections: with a limit on every wait, and without the retries of the library, which would exceed it."""

from typing import Any, Protocol

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from holdfast.store.redis.address import Address, Login, Place

_KINDS: dict[str, Any] = {"socket": UnixDomainSocketConnection, "plain": Connection, "tls": SSLConnection}
_NUMBERS = (int, float)


class Wire(Protocol):
    """A connection of the library, as far as we use it: a command is sent, then its reply is read."""

    def send_command(self, *args: Any) -> None:
        """Send a command."""
        ...

    def read_response(self) -> Any:
        """Wait for the next reply. Raises it if it is an error."""
        ...

    def can_read(self) -> bool:
        """Tell whether something has come in, or the other side has hung up, which may raise as well."""
        ...

    def disconnect(self) -> None:
        """Hang up."""
        ...


def open_connection(address: Address, place: Place, timeout: float) -> Wire:
    """Return a connection to the server at this place, logged in and at the database of the address."""
    return _open(address, place, address.login, timeout, db=address.db)


def open_to_sentinel(address: Address, place: Place, timeout: float) -> Wire:
    """Return a connection to one of the sentinels of the address."""
    return _open(address, place, address.sentinel_login, timeout, db=0)


def send(connection: Wire, *command: Any) -> None:
    """Send one command. hiredis crashes where a signal handler raises while it writes a number: it gets texts."""
    connection.send_command(*(str(word) if type(word) in _NUMBERS else word for word in command))


def ask(connection: Wire, *command: Any) -> Any:
    """Send one command and return its reply."""
    send(connection, *command)
    return connection.read_response()


def descriptor(wire: Wire) -> int:
    """Return the number by which an event loop can watch the connection."""
    opened: Any = wire
    number: int = opened._sock.fileno()  # noqa: SLF001 - the library shows it to nobody
    return number


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
    connection.connect()
    wire: Wire = connection
    return wire
