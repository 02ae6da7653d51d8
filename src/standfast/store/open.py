"""Which store a URL means. A URL may hold a password, so no error here ever repeats one."""

import re
from importlib import import_module
from typing import TYPE_CHECKING

from standfast.clock import Clock, SystemClock
from standfast.errors import ConfigurationError
from standfast.settings import Settings
from standfast.spelling import nearest
from standfast.store.backend import Backend
from standfast.store.door import Copies, Door

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from standfast.store.examination import Examination

_EXAMPLE = "write e.g. sqlite:///jobs.db, postgresql://user:password@host/database or redis://host:6379/0"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://.*", re.DOTALL)
_SERVERS = ("redis", "rediss", "valkey", "valkeys")
SCHEMES = {
    "memory": "standfast.store.memory",
    "sqlite": "standfast.store.sqlite",
    "postgresql": "standfast.store.postgres",
    "postgres": "standfast.store.postgres",
    **{
        f"{scheme}{suffix}": "standfast.store.redis"
        for scheme in _SERVERS
        for suffix in ("", "+cluster", "+sentinel")
    },
    "unix": "standfast.store.redis",
}
"""The package of the store that each scheme means."""

_ALIKE = 0.65
"""From which likeness on a scheme may be a slip of another: mysql is none of sqlite."""


def open_backend(settings: Settings, clock: Clock | None = None) -> Backend:
    """Open the store that the settings name. Raises ConfigurationError for a URL that means none."""
    return door_of(settings.url).open(settings, SystemClock() if clock is None else clock)


def refuse_missing_store(settings: Settings) -> None:
    """Raise an error unless the store is there; whether it can be used is found out by opening it."""
    door_of(settings.url).refuse_missing(settings)


def examine_store(settings: Settings, clock: Clock | None = None, *, deep: bool = False) -> "Examination":
    """Look at the store that the settings name, and change nothing; `deep` reads all of it."""
    return door_of(settings.url).examine(settings, SystemClock() if clock is None else clock, deep=deep)


def copies_of(settings: Settings) -> Copies:
    """Return what backs the store up. Raises ConfigurationError where other tools do that, and names them."""
    return door_of(settings.url).copies(settings)


def check_url(url: str) -> None:
    """Raise ConfigurationError for a URL that means no store, or one whose driver is not installed."""
    door_of(url).check(url)


def public_name(url: str) -> str:
    """Return what to call a store in front of people: never with a password."""
    return door_of(url).public_name(url)


def absolute_url(url: str) -> str:
    """Return the URL as it reads from any folder: another process may work elsewhere."""
    return door_of(url).absolute(url)


def door_of(url: str) -> Door:
    """Return the door of the store that a URL means. Raises ConfigurationError where it means none."""
    match = _SCHEME.fullmatch(url)
    if match is None:
        raise ConfigurationError(f"the store URL has no scheme; {_EXAMPLE}")
    scheme = match["scheme"].lower()
    if scheme not in SCHEMES:
        meant = nearest(scheme, SCHEMES, _ALIKE)
        remedy = _EXAMPLE if meant is None else f"did you mean {meant}://?"
        raise ConfigurationError(f"no store has the URL scheme {scheme!r}; {remedy}")
    door: Door = import_module(SCHEMES[scheme]).DOOR  # only who uses a store loads it
    return door
