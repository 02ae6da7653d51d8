"""Which store a URL means, and all that is asked about one before it is open.

The door of a store: all that is asked about one by its URL alone, before it is open.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import RLock, get_ident
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock, SystemClock
from standfast.model.configuration import Settings
from standfast.model.display import install
from standfast.model.states import State
from standfast.model.suggestions import closest_name
from standfast.stores.backend import Backend

if TYPE_CHECKING:
    from standfast.stores.doctor import Examination


Counts = Mapping[State, int]
"""How many jobs there are in each state that has any."""

Progress = Callable[[int, int], None]
"""Hears how much is done, and of how much."""


class Copies(Protocol):
    """Makes copies of a store, and takes them back, while programs use it."""

    def count(self, copy: Path | None = None) -> Counts:
        """Return what is in the store, or in a copy. Raises an error for what is no copy of a store."""
        ...

    def backup(self, target: Path, progress: Progress) -> Counts:
        """Copy the store into a new file; return what is in it."""
        ...

    def restore(self, copy: Path, progress: Progress) -> None:
        """Put the content of a copy in the place of all that is in the store."""
        ...


class StoreKind(Protocol):
    """One kind of store. A URL may hold a password, so no error of these ever repeats one."""

    def check(self, url: str) -> None:
        """Raise ConfigurationError for a URL that names no store of this kind, or one that cannot be used here."""
        ...

    def public_name(self, url: str) -> str:
        """Return what to call the store in front of people: never with a password."""
        ...

    def absolute(self, url: str) -> str:
        """Return the URL as another process, which may work elsewhere, reads it. Raises ConfigurationError."""
        ...

    def open(self, settings: Settings, clock: Clock) -> Backend:
        """Return the store; nothing is connected before its first verb."""
        ...

    def refuse_missing(self, settings: Settings) -> None:
        """Raise an error unless the store is there: looking must not make, as working does."""
        ...

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the store, and change nothing; `deep` reads all of it."""
        ...

    def files_beside(self, url: str) -> Path | None:
        """Return the folder for the files of jobs where none is set; None where it must be."""
        ...

    def migrator(self, settings: Settings) -> "Migrator | None":
        """Return what brings the store's tables to this release; None where it has no tables."""
        ...

    def copies(self, settings: Settings) -> Copies:
        """Return what backs the store up. Raises ConfigurationError where other tools do that, and names them."""
        ...


def require(module: str, extra: str) -> None:
    """Raise ConfigurationError unless the driver of a store is installed."""
    if find_spec(module) is None:
        raise ConfigurationError(f"this store needs {module}, which is not installed: run {install(extra)}")


def moved_clock(clock: Clock) -> Clock | None:
    """Return the clock that a store with a time of its own goes by instead: one that a test moves, or none."""
    return None if isinstance(clock, SystemClock) else clock


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder stay."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# Which store a URL means. A URL may hold a password, so no error here ever repeats one.

_EXAMPLE = "write e.g. sqlite:///jobs.db, postgresql://user:password@host/database or redis://host:6379/0"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://.*", re.DOTALL)
_SERVERS = ("redis", "rediss", "valkey", "valkeys")
SCHEMES = {
    "memory": "standfast.stores.memory",
    "sqlite": "standfast.stores.sqlite",
    "postgresql": "standfast.stores.postgres",
    "postgres": "standfast.stores.postgres",
    **{
        f"{scheme}{suffix}": "standfast.stores.redis"
        for scheme in _SERVERS
        for suffix in ("", "+cluster", "+sentinel")
    },
    "unix": "standfast.stores.redis",
}
"""The package of the store that each scheme means."""

_ALIKE = 0.65
"""From which likeness on a scheme may be a slip of another: mysql is none of sqlite."""


def open_backend(settings: Settings, clock: Clock | None = None) -> Backend:
    """Open the store that the settings name. Raises ConfigurationError for a URL that means none."""
    return store_kind(settings.url).open(settings, SystemClock() if clock is None else clock)


def refuse_missing_store(settings: Settings) -> None:
    """Raise an error unless the store is there; whether it can be used is found out by opening it."""
    store_kind(settings.url).refuse_missing(settings)


def examine_store(settings: Settings, clock: Clock | None = None, *, deep: bool = False) -> "Examination":
    """Look at the store that the settings name, and change nothing; `deep` reads all of it."""
    return store_kind(settings.url).examine(settings, SystemClock() if clock is None else clock, deep=deep)


def copies_of(settings: Settings) -> Copies:
    """Return what backs the store up. Raises ConfigurationError where other tools do that, and names them."""
    return store_kind(settings.url).copies(settings)


def check_url(url: str) -> None:
    """Raise ConfigurationError for a URL that means no store, or one whose driver is not installed."""
    store_kind(url).check(url)


def public_name(url: str) -> str:
    """Return what to call a store in front of people: never with a password."""
    return store_kind(url).public_name(url)


def absolute_url(url: str) -> str:
    """Return the URL as it reads from any folder: another process may work elsewhere."""
    return store_kind(url).absolute(url)


def store_kind(url: str) -> StoreKind:
    """Return the door of the store that a URL means. Raises ConfigurationError where it means none."""
    match = _SCHEME.fullmatch(url)
    if match is None:
        raise ConfigurationError(f"the store URL has no scheme; {_EXAMPLE}")
    scheme = match["scheme"].lower()
    if scheme not in SCHEMES:
        meant = closest_name(scheme, SCHEMES, _ALIKE)
        remedy = _EXAMPLE if meant is None else f"did you mean {meant}://?"
        raise ConfigurationError(f"no store has the URL scheme {scheme!r}; {remedy}")
    door: StoreKind = import_module(SCHEMES[scheme]).KIND  # only who uses a store loads it
    return door


# How apps open their stores: under one lock, for which a fork waits, and not by accident.
#
# Under pytest the app of a project is not to write to the store that it has in production, and a module that enqueues
# while it is imported is told of.

FORK_PATIENCE = 5.0

_OURS = __name__.partition(".")[0]
_ENQUEUES = f"{_OURS}.task"
_TEST_FOLDERS = {"test", "tests"}


class OpenLock:
    """One lock for a process.

    To open a store is to import it, and a child forked meanwhile would wait for ever for the thread that does: for
    our lock, or for Python's lock of the module.
    """

    def __init__(self) -> None:
        self._begin()

    def before_fork(self) -> None:
        """Wait until nobody opens a store, but not for ever."""
        if self.lock.acquire(timeout=FORK_PATIENCE):
            self._forking.append(get_ident())

    def after_in_parent(self) -> None:
        """Let others open their stores again."""
        if get_ident() in self._forking:
            self._forking.remove(get_ident())
            self.lock.release()

    def after_in_child(self) -> None:
        """Begin anew: whoever held the lock is not here."""
        self._begin()

    def _begin(self) -> None:
        self.lock = RLock()
        self._forking = list[int]()


OPEN_LOCK = OpenLock()
os.register_at_fork(
    before=OPEN_LOCK.before_fork, after_in_parent=OPEN_LOCK.after_in_parent, after_in_child=OPEN_LOCK.after_in_child
)


# -- not by accident -------------------------------------------------------------------------------------------


def made_by_an_import() -> bool:
    """Tell whether, under pytest, an app is being made by a module of the project's, and not for a test."""
    if "_pytest" not in sys.modules:
        return False
    for frame in callers():
        if _is_of_tests(frame):
            return False
        if frame.f_code.co_name == "<module>":
            return True
    return False


def refuse_in_test(store: str) -> None:
    """Raise ConfigurationError if this is a run of pytest: the store is the one that the project has in life.

    A file in the folder for temporary files is none.
    """
    runs = not {"PYTEST_VERSION", "PYTEST_CURRENT_TEST"}.isdisjoint(os.environ)
    if "_pytest" in sys.modules and runs and not _is_temporary(Path(store)):
        raise ConfigurationError(
            f"a test is about to use {store}, the store that the app is declared with: take the fixture"
            " standfast_kit, or `with StandfastKit(app):`, which gives the test a store of its own; a test that"
            " needs a database names it before the app is imported, as in STANDFAST_URL=sqlite:///test.db"
        )


def warn_of_enqueue_at_import() -> None:
    """Warn where a module enqueues while it is imported: each worker imports it, and does so again."""
    enqueues = False
    for frame in callers(ours=True):
        module = str(frame.f_globals.get("__name__", ""))
        enqueues = enqueues or module == _ENQUEUES
        if frame.f_code.co_name == "<module>" and not module.startswith(f"{_OURS}."):
            if enqueues and getattr(frame.f_globals.get("__spec__"), "_initializing", False):
                warnings.warn_explicit(
                    f"{module} enqueues a job while it is imported, and so does every process that imports it, each"
                    " worker too: enqueue in a function, or below `if __name__ == '__main__':`",
                    RuntimeWarning,
                    frame.f_code.co_filename,
                    frame.f_lineno,
                )
            return


def callers(*, ours: bool = False) -> Iterator[FrameType]:
    """Yield the frames of those who call, the innermost first, and without those of Standfast's own code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way
    while frame is not None:
        if ours or str(frame.f_globals.get("__name__", "")).partition(".")[0] != _OURS:
            yield frame
        frame = frame.f_back


def _is_of_tests(frame: FrameType) -> bool:
    """Tell whether code is a test module, rewritten by pytest, in a folder of tests, or written by a test."""
    loader, path = frame.f_globals.get("__loader__"), Path(frame.f_code.co_filename)
    named = path.name == "conftest.py" or path.stem.startswith("test_") or path.stem.endswith("_test")
    rewritten = type(loader).__module__.startswith("_pytest.")
    return named or rewritten or not _TEST_FOLDERS.isdisjoint(path.parts) or _is_temporary(path)


def _is_temporary(path: Path) -> bool:
    from tempfile import gettempdir  # noqa: PLC0415 - only tests ask

    return path.is_absolute() and path.resolve().is_relative_to(Path(gettempdir()).resolve())


# How the tables of a store are brought to this release: what is there, what would be done, doing it.


@dataclass(frozen=True, slots=True)
class Tables:
    """One set of tables as it was found. `sql` is what would be run, "" if nothing is missing."""

    name: str
    version: int
    """How many migrations were applied; 0: the tables are not there."""
    known: int
    """How many migrations this release knows."""
    sql: str = ""
    usable: bool = True
    """Whether this release can work with them, where they are of a newer one."""

    @property
    def missing(self) -> int:
        """How many migrations are to be applied."""
        return max(self.known - self.version, 0)


class Migrator(Protocol):
    """Brings tables to this release."""

    def look(self) -> tuple[Tables, ...]:
        """Return the tables as they are, and change nothing."""
        ...

    def apply(self) -> None:
        """Apply what is missing, all of it or nothing. Raises SchemaError for tables of too new a release."""
        ...
