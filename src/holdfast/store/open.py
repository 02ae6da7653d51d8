"""Which store a URL means. A URL may hold a password, so no error here ever repeats one."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clock import Clock, SystemClock
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings
from holdfast.store.backend import Backend

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from holdfast.store.examination import Examination

_EXAMPLE = "write e.g. sqlite:///jobs.db, or sqlite:////var/lib/app/jobs.db for an absolute path"
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_LATER = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "rediss": "Redis",
    "valkey": "Redis",
}


def open_backend(settings: Settings, clock: Clock | None = None) -> Backend:
    """Open the store that the settings name. Raises ConfigurationError for a URL that means none."""
    clock = SystemClock() if clock is None else clock
    path = check_url(settings.url)
    return _open_memory(clock) if path is None else _open_sqlite(path, settings, clock)


def examine_store(settings: Settings, clock: Clock | None = None, *, deep: bool = False) -> "Examination":
    """Look at the store that the settings name, and change nothing; `deep` reads all of it."""
    clock = SystemClock() if clock is None else clock
    path = check_url(settings.url)
    if path is None:
        from holdfast.store.memory.examine import examine_memory  # noqa: PLC0415 - only who uses it loads it

        return examine_memory(clock)
    from holdfast.store.sqlite.examine import examine_file  # noqa: PLC0415 - only who uses it loads it

    return examine_file(path, settings.namespace, clock, deep=deep)


def check_url(url: str) -> str | None:
    """Return the path that a sqlite URL names, or None for memory. Raises ConfigurationError for any other."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ConfigurationError(f"the store URL has no scheme; {_EXAMPLE}")
    scheme, rest = match["scheme"].lower(), match["rest"]
    if scheme == "sqlite":
        return sqlite_path(rest)
    if scheme == "memory":
        if rest:
            raise ConfigurationError("the memory store has no name or path; write memory://")
        return None
    if scheme in _LATER:
        raise ConfigurationError(f"{_LATER[scheme]} is not part of this release yet; until it is, {_EXAMPLE}")
    raise ConfigurationError(f"no store has the URL scheme {scheme!r}; {_EXAMPLE}")


def public_name(url: str) -> str:
    """Return what to call a store in front of people: never with a password."""
    match = _URL.fullmatch(url)
    if match is None or match["scheme"].lower() != "sqlite":
        return url.partition(":")[0]
    return sqlite_path(match["rest"])


def absolute_url(url: str) -> str:
    """Return the URL as it reads from any folder: another process may work elsewhere."""
    match = _URL.fullmatch(url)
    if match is None or match["scheme"].lower() != "sqlite":
        return url
    return f"sqlite:///{Path(sqlite_path(match['rest'])).absolute()}"


def sqlite_path(rest: str) -> str:
    """Return the path in what follows `sqlite://`: after one slash, so that a second makes it absolute."""
    host, slash, path = rest.partition("/")
    if host or not slash:
        raise ConfigurationError(f"a sqlite URL has three slashes before its path; {_EXAMPLE}")
    if not path or path.endswith("/"):
        raise ConfigurationError(f"the sqlite URL names no file; {_EXAMPLE}")
    if path == ":memory:":
        raise ConfigurationError("sqlite in memory would lose every job; use memory:// in tests, or name a file")
    if "?" in path or "\0" in path:
        raise ConfigurationError(f"a sqlite URL takes no options and no '?' in its path; {_EXAMPLE}")
    return path


def _open_sqlite(path: str, settings: Settings, clock: Clock) -> Backend:
    from holdfast.store.sqlite.backend import SqliteBackend  # noqa: PLC0415 - only who uses it loads it

    return SqliteBackend(path, clock=clock, namespace=settings.namespace)


def _open_memory(clock: Clock) -> Backend:
    from holdfast.store.memory.backend import MemoryBackend  # noqa: PLC0415 - only who uses it loads it

    return MemoryBackend(clock)
