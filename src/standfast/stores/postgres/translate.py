"""Errors of PostgreSQL and of psycopg become ours.

What gives a user the rights that jobs take, in the words of every place that says so. Pure.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from standfast.errors import (
    ConfigurationError,
    SchemaError,
    StandfastError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.stores.postgres.readiness import OverdueError
from standfast.stores.postgres.url import Address
from standfast.stores.postgres.wire import LostError
from standfast.stores.refusals import brief


def let_in(schema: str) -> str:
    """Return what lets a user work with a schema that is there."""
    return f"let its owner run {_grants(schema)}"


def make(schema: str) -> str:
    """Return what makes a schema where the user may not, and lets the user in."""
    return (
        "let a user who may create schemas run `standfast migrate`, or what `standfast migrate --plan` prints, then"
        f" {_grants(schema)}"
    )


def _grants(schema: str) -> str:
    return (
        f'GRANT USAGE ON SCHEMA "{schema}" TO …;'
        f' GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO …;'
        f' GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{schema}" TO …'
    )


# What libpq says while it connects, in words only, without codes.
#
# None of them is repeated, as they may quote parts of the URL; but names of options are no secrets.

_REFUSED_OPTIONS: tuple[tuple[str, str], ...] = (
    (r'invalid "?(\w+)"? value: ', r"\1"),
    (r'invalid integer value ".*" for connection option "(\w+)"', r"\1"),
    (r"bad value for (\w+):", r"\1"),
    (r"weak sslmode ", "sslmode"),
    (r"require_auth method ", "require_auth"),
    (r"could not parse network address ", "hostaddr"),
    (r"could not match \d+ port numbers to ", "port"),
    (r"could not match \d+ host names to ", "hostaddr"),
    (r"invalid SCRAM (client|server) key", r"scram_\1_key"),
    (r"invalid SSL protocol version range", "ssl_min_protocol_version"),
    (r'(?:definition of service|service file) ".*" not found', "service"),
    (r"invalid command-line argument for server process", "options"),
    (r'invalid value for parameter "(\w+)"', r"\1"),
    (r'unrecognized configuration parameter "([\w.]+)"', r"\1"),
)
"""What is wrong with an option, whatever the server: how that is said, and the name of the option."""

_VALUES = {
    "sslmode": "disable, allow, prefer, require, verify-ca or verify-full",
    "target_session_attrs": "any, read-write, read-only, primary, standby or prefer-standby",
}
"""What the options take that people write most."""

_FILES = r"certificate file|private key file|certificate revocation list|certificate store"

_DISAGREEMENTS: tuple[tuple[str, str], ...] = (
    (
        r"certificate verify failed",
        (
            "the certificate of the server has expired, or is of an authority that is not trusted here: name the"
            " file with the authority's own in the URL, as in ?sslrootcert=/path/ca.pem, or renew the certificate"
        ),
    ),
    (
        r"does not match host name",
        (
            "the certificate of the server is for another host: write the host that it names in the URL, or"
            " sslmode=verify-ca where you trust the network"
        ),
    ),
    (
        r"server does not support SSL",
        "the server has no TLS, and sslmode asks for it: set ssl = on there, or leave sslmode out of the URL",
    ),
    (
        r"requires a valid client certificate|SSL error: .*\balert\b",
        (
            "the server does not take our part in TLS: where it asks for a certificate, give one that it trusts"
            " with ?sslcert= and &sslkey= in the URL"
        ),
    ),
    (r"SSL|certificate", "no secure connection can be made: check sslmode and the certificates"),
)
"""Why a server and we do not come to terms over TLS, and what to do."""

_HUNG_UP = r"SSL SYSCALL error|SSL connection has been closed|unexpected eof"
"""How it is said that a line with TLS was cut, which the next may not be."""

_LOGINS: tuple[tuple[str, str], ...] = (
    (
        r"password authentication failed",
        "this user is not known there, or the password is wrong: correct it in the URL",
    ),
    (
        r"no password supplied",
        (
            "the server asks for a password, and none is given: write it in the URL,"
            " postgresql://user:password@host/database, or in ~/.pgpass"
        ),
    ),
    (
        r"role .* does not exist",
        "there is no such user: create it with `createuser`, or correct its name in the URL",
    ),
    (
        r"is not permitted to log in",
        "this user may not log in: run `ALTER ROLE … LOGIN`, or name another in the URL",
    ),
    (
        r"pg_hba",
        (
            "its pg_hba.conf does not let this user in from here, or not to this database, or only with TLS: add a"
            " line there, or correct user, database or sslmode in the URL"
        ),
    ),
    (
        r"(Peer|Ident) authentication failed",
        (
            "over this way it lets in only the system's user of the same name: run as that one, or give host and"
            " password in the URL"
        ),
    ),
    (
        r"authentication failed",
        "the server does not let this user in: correct user and password in the URL, or pg_hba.conf on the server",
    ),
)
"""How a login is refused, and what to do."""

_CODES: tuple[tuple[str, str], ...] = (
    (r"database .* does not exist", "3D000"),
    (r"too many connections|remaining connection slots|too many clients", "53300"),
    (r"starting up|shutting down|recovery mode|not yet accepting", "57P03"),
    (r"session is read-only|is in hot standby|not in hot standby|read-write", "25006"),
)


def refusal(text: str, name: str) -> StandfastError | None:
    """Return the error for what no later try can mend: an option, a file that it names, or the login."""
    for words, option in _REFUSED_OPTIONS:
        if found := re.search(words, text):
            return _of_option(found.expand(option), name)
    if re.search(_FILES, text):
        return StoreError(
            f"{name}: a file for TLS cannot be used: check the paths in sslrootcert, sslcert, sslkey and sslcrl,"
            " that this user may read them, and that nobody else may read the key"
        )
    for words, says in _LOGINS:
        if re.search(words, text):
            return StoreError(f"{name} refuses: {says}")
    return None


def code_in(text: str) -> str:
    """Return the state that the words mean, "" where they mean none."""
    return next((code for words, code in _CODES if re.search(words, text)), "")


def of_the_line(text: str, name: str) -> StandfastError:
    """Return the error for a connection that cannot be made, or that is lost."""
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
    for words, says in _DISAGREEMENTS if not re.search(_HUNG_UP, text) else ():
        if re.search(words, text):
            return StoreError(f"{name}: {says}")
    if "timeout" in text:
        return StoreUnavailableError(
            f"{name} does not answer: check host, port and firewall, and that the server runs, or try again"
        )
    return StoreUnavailableError(
        f"the connection to {name} is lost: check the server and the network, or try again"
    )


def _of_option(option: str, name: str) -> ConfigurationError:
    known = f"; it can be {_VALUES[option]}" if option in _VALUES else ""
    return ConfigurationError(
        f"{name}: the option {option} has a value that it cannot have{known}: correct it in the URL, or in the PG…"
        " variable of libpq that it comes from"
    )


# The boundary: what psycopg raises becomes our own errors, in one line that names the place and what to do.
#
# What the server says is repeated only where it is about our own statements; what libpq says while connecting never
# is (connecting.py).

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
