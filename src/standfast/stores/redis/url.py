"""What a Redis URL says: where the server is, and how to log in. A URL may hold a password: no error repeats it.

redis://user:password@host:6379/0             one server; valkey:// is the same, rediss:// and valkeys:// with TLS
unix:///run/redis.sock?db=0                   one server, by its socket
redis+cluster://host:6379,host2:6379          a cluster, by some of its nodes
redis+sentinel://host:26379,host2/service/0   the master of a service, as these sentinels tell
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from standfast.errors import ConfigurationError

_EXAMPLE = "write e.g. redis://user:password@host:6379/0"
_ENCODE = (
    "write other characters than letters and digits in a password as %40 for @, %2F for /, %23 for #, %3F for ?"
)
_PORT = 6379
_SENTINEL_PORT = 26379
_HIGHEST_PORT = 65535
_LONGEST_NUMBER = 5
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")


class Kind(Enum):
    """How the server is found."""

    SERVER = "server"
    SOCKET = "socket"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens: a host and its port, or the path of a socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, if anybody does."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Address:
    """A Redis URL, taken apart."""

    kind: Kind
    places: tuple[Endpoint, ...]
    login: Login = Login()
    db: int = 0
    tls: bool = False
    tls_options: Mapping[str, str | bool] = field(default_factory=dict, repr=False)
    service: str = ""
    sentinel_login: Login = Login()

    @property
    def name(self) -> str:
        """What to call the store in front of people."""
        places = ",".join(map(str, self.places))
        match self.kind:
            case Kind.CLUSTER:
                return f"cluster {places}"
            case Kind.SENTINEL:
                return f"{self.service}/{self.db} of sentinel {places}"
            case _:
                return f"{places}/{self.db}"


_SCHEMES: Mapping[str, tuple[Kind, bool]] = MappingProxyType(
    {
        f"{base}{tls}{suffix}": (kind, bool(tls))
        for base in ("redis", "valkey")
        for tls in ("", "s")
        for suffix, kind in (("", Kind.SERVER), ("+cluster", Kind.CLUSTER), ("+sentinel", Kind.SENTINEL))
    }
    | {"unix": (Kind.SOCKET, False)}
)


TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Options that name a file which has to be there."""

_TLS_OPTIONS = frozenset({*TLS_FILES, "ssl_ca_path", "ssl_cert_reqs", "ssl_check_hostname"})
_OPTION = re.compile(r"[a-z_]{1,30}")
_SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_address(url: str) -> Address:
    """Take a URL apart. Raises ConfigurationError, which does not repeat it, for one that means no Redis store."""
    parts = _split(url)
    kind, tls = _SCHEMES[parts.scheme]
    userinfo, _, hosts = parts.netloc.rpartition("@")
    options = _options(parts.query, kind, tls=tls)
    path = [unquote(part) for part in parts.path.split("/")[1:]]
    if kind is Kind.SOCKET:
        if hosts or not parts.path.strip("/"):
            raise ConfigurationError(
                "a unix URL has three slashes before its path: write e.g. unix:///run/redis.sock"
            )
        return Address(
            kind, (Endpoint(path=unquote(parts.path)),), _login(userinfo, options, ""), _db(options.get("db", ""))
        )
    service = path.pop(0) if kind is Kind.SENTINEL and path else ""
    if kind is Kind.SENTINEL and not service:
        raise ConfigurationError(
            "the sentinel URL names no service: write e.g. redis+sentinel://host:26379/mymaster/0"
        )
    return Address(
        kind,
        tuple(_places(hosts, _SENTINEL_PORT if kind is Kind.SENTINEL else _PORT)),
        _login(userinfo, options, ""),
        _chosen_db(path, options, kind),
        tls,
        {name: _tls_value(name, value) for name, value in options.items() if name in _TLS_OPTIONS},
        service,
        _login("", options, "sentinel_"),
    )


def public_name(url: str) -> str:
    """Return what to call the store of a URL in front of people: never with a user or a password."""
    return f"redis {parse_address(url).name}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"the Redis URL cannot be read; {_EXAMPLE}") from None
    if parts.scheme not in _SCHEMES or not url.lower().startswith(f"{parts.scheme}://"):
        raise ConfigurationError(f"this is no Redis URL; {_EXAMPLE}")
    if not url.isprintable() or " " in url:
        raise ConfigurationError(f"the Redis URL has spaces or control characters in it; {_EXAMPLE}")
    if "#" in url or "@" in parts.path or "@" in parts.query:
        # What stands before that sign would be taken for the host, and it may be a part of a password.
        raise ConfigurationError(f"the Redis URL has a sign where it cannot stand; {_ENCODE}")
    return parts


def _places(hosts: str, default_port: int) -> Iterator[Endpoint]:
    for each in hosts.split(","):
        match = _HOST.fullmatch(each)
        if match is None:
            if not each:
                raise ConfigurationError(f"the Redis URL names no host; {_EXAMPLE}")
            raise ConfigurationError(
                f"the Redis URL has no host and port that can be read; {_EXAMPLE}, and {_ENCODE}"
            )
        port = int(match["port"] or default_port)
        if not 0 < port <= _HIGHEST_PORT:
            raise ConfigurationError(f"a port is a number from 1 to {_HIGHEST_PORT}; {_EXAMPLE}")
        yield Endpoint(match["host"].strip("[]"), port)


def _login(userinfo: str, options: Mapping[str, str], prefix: str) -> Login:
    username, _, password = userinfo.partition(":")
    return Login(
        unquote(username) or options.get(f"{prefix}username") or None,
        unquote(password) or options.get(f"{prefix}password") or None,
    )


def _options(query: str, kind: Kind, *, tls: bool) -> dict[str, str]:
    allowed = {"db"} if kind is not Kind.CLUSTER else set()
    allowed |= {"username", "password"} if kind is Kind.SOCKET else set()
    allowed |= _TLS_OPTIONS if tls else set()
    allowed |= _SENTINEL_OPTIONS if kind is Kind.SENTINEL else set()
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(options.keys() - allowed):
        # What does not look like a name may be a part of a password, in a URL that was written wrongly.
        named = [name for name in unknown if _OPTION.fullmatch(name)]
        raise ConfigurationError(
            f"the Redis URL has an option that means nothing here{': ' if named else ''}{', '.join(named)};"
            f" known are: {', '.join(sorted(allowed)) or 'none'}"
        )
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        raise ConfigurationError("the Redis URL has ssl_keyfile without ssl_certfile: give both, or neither")
    return options


def _chosen_db(path: list[str], options: Mapping[str, str], kind: Kind) -> int:
    named = [part for part in path if part]
    if len(named) > 1 or (named and "db" in options):
        raise ConfigurationError(f"the Redis URL names more than one database; {_EXAMPLE}")
    db = _db(named[0] if named else options.get("db", ""))
    if db and kind is Kind.CLUSTER:
        raise ConfigurationError(
            "a Redis Cluster has no databases but 0: leave the number away, and keep tenants apart by namespaces"
        )
    return db


def _db(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise ConfigurationError(f"a Redis database is a number; {_EXAMPLE}")
    return int(text)


def _tls_value(name: str, text: str) -> str | bool:
    if name == "ssl_check_hostname":
        if text.lower() not in _BOOLEANS:
            raise ConfigurationError("ssl_check_hostname in the Redis URL must be true or false")
        return _BOOLEANS[text.lower()]
    if name == "ssl_cert_reqs" and text not in {"required", "optional", "none"}:
        raise ConfigurationError("ssl_cert_reqs in the Redis URL must be required, optional or none")
    return text
