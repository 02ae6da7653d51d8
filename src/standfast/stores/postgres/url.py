"""What a PostgreSQL URL means. It may hold a password, so nothing here, no error and no name, ever repeats it.

    postgresql://user:password@host:port/database?schema=name&pooler=transaction&…

`schema`, `pooler` and `pool_size` are ours; everything else is libpq's own and reaches it untouched, several hosts
included.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from standfast.errors import ConfigurationError

DEFAULT_SCHEMA = "standfast"

POOL_SIZE = 10
"""Connections for jobs that one process opens at most, unless the URL says otherwise."""

_LONGEST_NAME = 63
"""Bytes of a name that the server keeps; it cuts longer ones."""

_EXAMPLE = "write e.g. postgresql://user:password@host:5432/database"
_URL = re.compile(
    r"(?i:postgres(?:ql)?)://(?:[^/?#@]*@)?(?P<hosts>[^/?#@]*)(?:/(?P<database>[^?#/]*))?(?:\?(?P<options>[^#]*))?"
)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]*)(?::(?P<port>\d*))?")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_POOL_SIZE = re.compile(r"[1-9][0-9]{0,3}")
_OURS = frozenset({"schema", "pooler", "pool_size"})
_NOT_OURS = frozenset({"public", "information_schema"})
_PORTS = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Address:
    """Where jobs are: how libpq gets there, in which schema they are, and whether a pooler stands in between."""

    conninfo: str = field(repr=False)
    """The URL as libpq reads it, with the password in it."""
    name: str
    """What to call the place in front of people."""
    schema: str
    pooled: bool
    hosts: int
    """How many servers are named."""
    pool_size: int = POOL_SIZE
    """How many connections for jobs one process opens at most."""


def parse_address(url: str, namespace: str | None = None) -> Address:
    """Return what a URL means. Raises ConfigurationError, without the URL, if it means nothing."""
    match = _URL.fullmatch(url.strip())
    if match is None:
        raise ConfigurationError(
            f"the PostgreSQL URL cannot be read; {_EXAMPLE}, and percent-encode @ : / ? # in a password"
        )
    hosts = match["hosts"].split(",")
    for host in hosts:
        _check_host(host)
    options = _Options(match["options"] or "")
    schema = options.ours("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            "the schema in the PostgreSQL URL must be at most 41 small letters, digits and underscores, and begin"
            " with a letter other than pg_; write e.g. ?schema=jobs"
        )
    if schema in _NOT_OURS:
        raise ConfigurationError(
            f"the schema in the PostgreSQL URL cannot be {schema}, as Standfast wants one of its own: leave it"
            " out for standfast, or write e.g. ?schema=jobs"
        )
    pooler = options.ours("pooler", "")
    if pooler not in {"", "transaction"}:
        raise ConfigurationError(
            "the pooler in the PostgreSQL URL can only be transaction: write ?pooler=transaction where PgBouncer"
            " gives connections for a transaction each, and leave it out anywhere else"
        )
    pool_size = options.ours("pool_size", str(POOL_SIZE))
    if not _POOL_SIZE.fullmatch(pool_size):
        raise ConfigurationError(
            "the pool_size in the PostgreSQL URL must be a number from 1 to 9999, the connections for jobs that one"
            " process opens at most: write e.g. ?pool_size=4"
        )
    start = url.strip().partition("?")[0]
    scheme, _, rest = start.partition("://")
    return Address(
        conninfo=f"{scheme.lower()}://{rest}{'?' if options.theirs else ''}{options.theirs}",
        name=_name(match["hosts"], unquote(match["database"] or ""), options),
        schema=_full_schema(schema, namespace),
        pooled=bool(pooler),
        hosts=max(len(hosts), len(options.value("host").split(","))),
        pool_size=int(pool_size),
    )


def public_name(url: str) -> str:
    """Return what to call the place in front of people: host, port and database, never a user or a password."""
    return parse_address(url).name


class _Options:
    """What stands behind the question mark: ours taken out, theirs as they were written."""

    def __init__(self, text: str) -> None:
        pairs = [pair for pair in text.split("&") if pair]
        self._values = [(name, value, pair) for pair in pairs for name, value in parse_qsl(pair, True)]
        self.theirs = "&".join(pair for name, _, pair in self._values if name not in _OURS)

    def value(self, wanted: str) -> str:
        """Return the value of an option, "" where it is not given."""
        return next((value for name, value, _ in self._values if name == wanted), "")

    def ours(self, wanted: str, default: str) -> str:
        """Return the value of an option of ours."""
        values = [value for name, value, _ in self._values if name == wanted]
        if len(values) > 1:
            raise ConfigurationError(f"the PostgreSQL URL has {wanted}= twice: leave one out")
        return values[0] if values else default


def _check_host(host: str) -> None:
    match = _HOST.fullmatch(unquote(host) if "%2F" in host.upper() else host)
    if match is None:
        raise ConfigurationError(
            f"a host in the PostgreSQL URL cannot be read; {_EXAMPLE}, and percent-encode @ : / ? # in a password"
        )
    if match["port"] and int(match["port"]) not in _PORTS:
        raise ConfigurationError("a port in the PostgreSQL URL is not between 1 and 65535")


def _name(hosts: str, database: str, options: _Options) -> str:
    database = options.value("dbname") or database
    port = options.value("port")
    if hosts:
        return f"postgresql://{hosts}/{database}"
    host = options.value("host") or options.value("hostaddr")
    if host.startswith("/"):
        return f"postgresql:///{database}?host={host}" + (f"&port={port}" if port else "")
    return f"postgresql://{host}{':' if port else ''}{port}/{database}"


def _full_schema(schema: str, namespace: str | None) -> str:
    full = schema if namespace is None else f"{schema}_{namespace}"
    if len(full) > _LONGEST_NAME:
        raise ConfigurationError(
            f"schema and namespace make a name of {len(full)} letters, and PostgreSQL takes 63: shorten one"
        )
    return full
