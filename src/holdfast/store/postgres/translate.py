"""The boundary: what psycopg raises becomes our own errors, in one line that names the place and what to do.

What the server says is repeated only where it is about our own statements; what libpq says while connecting never
is, as it may quote parts of the URL.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.wire import OverdueError

FORBIDDEN = "42501"
_ABSENT = {"42P01", "3F000", "42703", "42883"}
_AWAY = {
    "57P01": "it was shut down or this connection was ended",
    "57P02": "it crashed and is recovering",
    "57P03": "it is starting up or shutting down",
    "57P05": "the connection was idle for too long",
    "25P03": "the connection was idle inside a transaction for too long",
    "53300": "it has no connection to spare: raise max_connections, use fewer processes, or put PgBouncer before it"
    " with ?pooler=transaction",
    "53400": "a limit of its configuration is reached",
    "40P01": "two transactions waited for each other and this one gave way",
    "40001": "another transaction changed the same rows at the same time",
    "55P03": "another transaction holds a lock for too long: end it",
    "57014": "a statement took too long: see what else the server is doing",
    "0A000": "a table was changed while in use",
    "25006": "it takes no writes, being a replica or in recovery: name the primary, or every host and"
    " target_session_attrs=read-write",
}
"""States in which it may work later."""

_ROOM = {
    "53100": "the disk of the server is full: free space",
    "53200": "the server is out of memory: raise its limits, or lower max_connections",
}
_REFUSED = {
    "28P01": "the password for this user is wrong: correct it in the URL",
    "28000": "the server lets this user in from here neither with nor without a password: correct the user in the"
    " URL, or pg_hba.conf on the server",
    "3D000": "there is no such database: create it with `createdb`, or correct its name in the URL",
    "42704": "the server lacks something that this release needs: use PostgreSQL 14 or newer",
}


@contextmanager
def translated(address: Address, timeout: float) -> Iterator[None]:
    """Let no error of psycopg escape."""
    try:
        yield
    except OverdueError as error:
        raise overdue(address, timeout) from error
    except psycopg.Error as error:
        raise translate(error, address) from error


def overdue(address: Address, timeout: float) -> StoreUnavailableError:
    """Return the error for a server that did not answer."""
    return StoreUnavailableError(
        f"{address.name} did not answer within {timeout:g} s: check the server and the network, or try again"
    )


def translate(error: psycopg.Error, address: Address) -> HoldfastError:
    """Return our error for one of psycopg's."""
    code = error.sqlstate or _code_in(str(error))
    if not code:
        return _of_the_line(str(error), address.name)
    return _of_a_code(code, address) or _of_a_class(code, error, address.name)


def _of_a_code(code: str, address: Address) -> StoreError | None:
    name, schema = address.name, address.schema
    if code in _ROOM:
        return StoreFullError(f"{name} has no room, nothing of this call was stored: {_ROOM[code]}")
    if code in _REFUSED:
        return StoreError(f"{name} refuses: {_REFUSED[code]}")
    if code in _AWAY:
        return StoreUnavailableError(f"{name} cannot be used now, {_AWAY[code]}; then try again")
    if code in _ABSENT:
        return SchemaError(
            f"{name} lacks tables of this release in schema {schema}: run `holdfast migrate`, or give the right"
            " schema and namespace"
        )
    if code == FORBIDDEN:
        return StoreError(
            f"{name} refuses: this user lacks rights in schema {schema}; let its owner run"
            f" {'; '.join(grants(schema))}"
        )
    return None


def grants(schema: str) -> tuple[str, ...]:
    """Return what gives a user all that jobs take."""
    return (
        f'GRANT USAGE ON SCHEMA "{schema}" TO …',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO …',
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{schema}" TO …',
    )


def _of_a_class(code: str, error: psycopg.Error, name: str) -> StoreError:
    says = error.diag.message_primary or "no details"
    if code.startswith("22"):
        return ValueNotStoredError(f"PostgreSQL cannot store a value of this call ({says})")
    if code.startswith(("08", "53", "57")):
        return StoreUnavailableError(f"{name} cannot be used now ({says}): try again")
    return StoreError(f"{name} refused a statement ({says}, {code})")


_PHRASES: tuple[tuple[str, str], ...] = (
    (r"password authentication failed", "28P01"),
    (r"no password supplied|pg_hba|authentication failed|role .* does not exist", "28000"),
    (r"database .* does not exist", "3D000"),
    (r"too many connections|remaining connection slots|too many clients", "53300"),
    (r"starting up|shutting down|recovery mode|not yet accepting", "57P03"),
    (r"session is read-only|is in hot standby|not in hot standby|read-write", "25006"),
)


def _code_in(text: str) -> str:
    """Return the state that the words of a failed connection mean: libpq gives no code for it."""
    return next((code for words, code in _PHRASES if re.search(words, text)), "")


def _of_the_line(text: str, name: str) -> HoldfastError:
    if "unsupported startup parameter" in text:
        return ConfigurationError(
            f"{name} is a pooler, which takes no settings for a session: add ?pooler=transaction to the URL"
        )
    if re.search(r"resolve|translate host name|Name or service|nodename nor servname", text):
        return StoreUnavailableError(
            f"{name}: no host of that name is known: correct it in the URL, or check the network's names (DNS)"
        )
    if re.search(r"[Cc]onnection refused|No such file or directory", text):
        return StoreUnavailableError(
            f"{name}: no server listens there: start it, or correct host and port in the URL"
        )
    if re.search(r"SSL|certificate", text):
        return StoreError(f"{name}: no secure connection can be made: check sslmode and the certificates")
    if "timeout" in text:
        return StoreUnavailableError(
            f"{name} does not answer: check host, port and firewall, and that the server runs, or try again"
        )
    return StoreUnavailableError(
        f"the connection to {name} is lost: check the server and the network, or try again"
    )
