"""The reference model: a store over plain dicts, and the shortest answer to what a verb means."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import NoReturn

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.stores.backend import Backend
from standfast.stores.doctor import Census, Examination, Finding
from standfast.stores.memory.store import MemoryBackend

# The door of the memory store.


class MemoryKind:
    """For memory:// in tests."""

    def check(self, url: str) -> None:
        """Refuse any name: there is one such store in each app."""
        if not url.endswith("://"):
            raise ConfigurationError("the memory store has no name or path; write memory://")

    def public_name(self, url: str) -> str:
        """Return its scheme."""
        return url.partition(":")[0]

    def absolute(self, url: str) -> str:  # noqa: ARG002 - the port's shape
        """Refuse: no other process can reach it."""
        raise ConfigurationError(
            "a memory store lives inside one process, and this takes several: choose another, as in"
            " sqlite:///standfast.db"
        )

    def open(self, settings: Settings, clock: Clock) -> Backend:  # noqa: ARG002 - the port's shape
        """Return an empty store."""
        return MemoryBackend(clock)

    def refuse_missing(self, settings: Settings) -> None:  # noqa: ARG002 - the port's shape
        """Refuse: it is never there for others."""
        raise ConfigurationError("a memory store lives inside one process: there is nothing to see from outside")

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> Examination:  # noqa: ARG002 - the port's shape
        """Return what there is to see from outside: no jobs, as those of another process cannot be seen."""
        lives = "memory: jobs live inside one process and end with it"
        finding = Finding.warning("store", lives, "use it in tests only; name a sqlite:/// URL elsewhere")
        return Examination((finding,), usable=True, census=Census(clock.now()))

    def files_beside(self, url: str) -> Path:  # noqa: ARG002 - the port's shape
        """Return a folder that goes with this process, as the jobs do."""
        return _passing_folder(os.getpid())

    def migrator(self, settings: Settings) -> None:
        """Return nothing: there are no tables."""

    def copies(self, settings: Settings) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Refuse: it ends with its process."""
        raise ConfigurationError(
            "`standfast backup` and `standfast restore` are for SQLite files: jobs in memory live inside one"
            " process and end with it"
        )


_FOLDERS: dict[int, Path] = {}


def _passing_folder(pid: int) -> Path:
    """Return the folder of a process; it goes at its end. A process that was forked has another one."""
    if (known := _FOLDERS.get(pid)) is not None:
        return known
    made = Path(tempfile.mkdtemp(prefix="standfast-files-"))
    folder = _FOLDERS.setdefault(pid, made)
    if folder is not made:  # another thread was first, and a lock would not outlive a fork
        made.rmdir()
        return folder

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


KIND = MemoryKind()
