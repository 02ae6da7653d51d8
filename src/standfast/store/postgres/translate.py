"""The boundary: what psycopg raises becomes our own errors, in one line that names the place and what to do.

What the server says is repeated only where it is about our own statements; what libpq says while connecting never
is (connecting.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from standfast.errors import (
    SchemaError,
    StandfastError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.store.brief import brief
from standfast.store.postgres.address import Address
from standfast.store.postgres.connecting import code_in, of_the_line, refusal
from standfast.store.postgres.remedies import let_in
from standfast.store.postgres.waiting import OverdueError
from standfast.store.postgres.wire import LostError

FORBIDDEN = "42501"
_ABSENT = {"42P01", "3F000", "42703", "42883"}
_AWAY = {
    "57P01": "it was shut down or this connection was ended",
    "57P02": "it crashed and is recovering",
    "57P03": "it is starting up or shutting down",
    "57P05": "the connection was idle for too long",
    "25P03": "the connection was idle inside a transaction for too long",
    "53300": "it has no connection to spare: raise max_connections, use fewer processes, lower ?pool_size= in the"
    " URL, or put PgBouncer before it with ?pooler=transaction",
    "53400": "a limit of its configuration is reached",
    "40P01": "two transactions waited for each other and this one gave way",
    "40001": "another transaction changed the same rows at the same time",
    "55P03": "another transaction holds a lock for too long: end it",
    "57014": "a statement took too long: see what else the server is doing",
    "0A000": "a table was changed while in use",
    "26000": "a pooler in between forgets prepared statements: add ?pooler=transaction to the URL",
    "42P05": "a pooler in between shares its sessions: add ?pooler=transaction to the URL",
    "25006": "it takes no writes, being a replica or in recovery: name the primary, or every host and"
    " target_session_attrs=read-write",
}
"""States in which it may work later."""

_ROOM = {
    "53100": "the disk of the server is full: free space",
    "53200": "the server is out of memory: raise its limits, or lower max_connections",
}
_REFUSED = {
    "3D000": "there is no such database: create it with `createdb`, or correct its name in the URL",
    "42704": "the server lacks something that this release needs: use PostgreSQL 14 or newer",
}


@contextmanager
def translated(address: Address, timeout: float) -> Iterator[None]:
    """Let no error of psycopg escape."""
    try:
        yield
    except (OverdueError, psycopg.Error) as error:
        raise reworded(error, address, timeout)  # noqa: B904 - it has its cause


def reworded(raised: OverdueError | psycopg.Error, address: Address, timeout: float) -> StandfastError:
    """Return our error for one of psycopg's, or for an answer that did not come. It has its cause."""
    if isinstance(raised, OverdueError):
        late = StoreUnavailableError(
            f"{address.name} did not answer within {timeout:g} s: check the server and the network, or try again"
        )
        late.__cause__ = None
        return late
    error = raised.reason if isinstance(raised, LostError) else raised
    ours = translate(error, address)
    ours.__cause__ = error if error.sqlstate else brief(error)
    return ours


def translate(error: psycopg.Error, address: Address) -> StandfastError:
    """Return our error for one of psycopg's."""
    if error.sqlstate:
        return _of_a_code(error.sqlstate, address) or _of_a_class(error.sqlstate, error, address.name)
    text, name = str(error), address.name
    return refusal(text, name) or _of_a_code(code_in(text), address) or of_the_line(text, name)


def _of_a_code(code: str, address: Address) -> StoreError | None:
    name, schema = address.name, address.schema
    if code in _ROOM:
        return StoreFullError(f"{name} has no room, nothing of this call was stored: {_ROOM[code]}")
    if code in _REFUSED:
        return StoreError(f"{name} refuses: {_REFUSED[code]}")
    if code in _AWAY:
        then = "then " if ":" in _AWAY[code] else "wait, then "
        return StoreUnavailableError(f"{name} cannot be used now, {_AWAY[code]}; {then}try again")
    if code in _ABSENT:
        return SchemaError(
            f"{name} lacks tables of this release in schema {schema}: run `standfast migrate`, or give the right"
            " schema and namespace"
        )
    if code == FORBIDDEN:
        return StoreError(f"{name} refuses: this user lacks rights in schema {schema}: {let_in(schema)}")
    return None


def _of_a_class(code: str, error: psycopg.Error, name: str) -> StoreError:
    says = error.diag.message_primary or "no details"
    if code.startswith("22"):
        return ValueNotStoredError(f"PostgreSQL cannot store a value of this call ({says})")
    if code.startswith(("08", "53", "57")):
        return StoreUnavailableError(f"{name} cannot be used now ({says}): try again")
    return StoreError(f"{name} refused a statement ({says}, {code})")
