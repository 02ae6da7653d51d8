"""The door of a store: all that is asked about one by its URL alone, before it is open."""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from standfast.clock import Clock, SystemClock
from standfast.core.states import State
from standfast.errors import ConfigurationError
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.words import install

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from standfast.store.examination import Examination
    from standfast.store.migrator import Migrator


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


class Door(Protocol):
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
