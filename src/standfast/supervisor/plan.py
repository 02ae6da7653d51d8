"""The plan of a supervisor, its ports to the world, and the watch over the files of an app for `--reload`."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from standfast.events import Events
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.observe.figures.counts import Tally
from standfast.stores.backend import Backend
from standfast.supervisor.child import Launcher
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.supervisor.probes import Survey
from standfast.supervisor.reaper import Reaper
from standfast.worker.options import ServedQueues

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5

SETTLED_AFTER = 0.1
"""Seconds without another change after which a save is over: an editor may empty a file before it writes it."""

MOST_FILES = 5000  # files that are looked at; a look must not take longer than the time to the next
_IGNORED = frozenset({"__pycache__", "node_modules", "site-packages"})
_OF_AN_ENVIRONMENT = "pyvenv.cfg"
Seen = Mapping[str, tuple[int, int]]  # when each file was changed, and how long it was then


class FileWatch:
    """The .py files of a folder and of those in it, but not of hidden ones nor of virtual environments."""

    def __init__(self, folder: Path, most: int = MOST_FILES) -> None:
        self._folder = folder
        self._most = most
        self._told = False

    async def changes(self) -> AsyncIterator[str]:
        """Yield the name of a file whenever it, and maybe others with it, was changed, added or removed."""
        before = await asyncio.to_thread(self.look)
        while True:
            await asyncio.sleep(LOOK_EVERY)
            after = await asyncio.to_thread(self.look)
            if before == after:
                continue
            after = await self._settled(after)
            changed = sorted(file for file, _ in before.items() ^ after.items())
            before = after
            if changed:
                yield changed[0]

    async def _settled(self, seen: Seen) -> Seen:
        """Return the files as they are when nothing more changes."""
        while True:
            await asyncio.sleep(SETTLED_AFTER)
            after = await asyncio.to_thread(self.look)
            if after == seen:
                return after
            seen = after

    def look(self) -> Seen:
        """Return the files as they are."""
        seen: dict[str, tuple[int, int]] = {}
        for path in _python_files(str(self._folder)):
            if len(seen) == self._most:
                self._tell_once()
                break
            try:
                status = os.stat(path)  # noqa: PTH116 - thousands of them, twice a second
            except OSError:
                continue
            seen[os.path.relpath(path, self._folder)] = status.st_mtime_ns, status.st_size
        return seen

    def _tell_once(self) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "%s has more than %s .py files, and only these are watched: name your app's folder with --app-dir",
                self._folder.resolve(),
                f"{self._most:,}",
            )


def _python_files(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        if _OF_AN_ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _IGNORED)
        yield from (os.path.join(parent, name) for name in sorted(files) if name.endswith(".py"))  # noqa: PTH118 - likewise


@dataclass(frozen=True, slots=True)
class Ports:
    """What a supervisor needs from the world: real in `supervise`, virtual in the simulator."""

    launcher: Launcher
    open_backend: Callable[[Settings], Backend]
    clock: Clock
    random: Random
    events: Events
    detector: IncidentDetector | None = None  # who writes incidents; None where nobody does
    reaper: Reaper | None = None  # who ends the children should the supervisor be killed; None where nobody does
    watch: FileWatch | None = None  # who sees that the code of the app changes; None where nobody looks
    close_backend: Callable[[Backend], None] = lambda backend: backend.close()  # lets go of the store in the end
    memory: Callable[[Sequence[int]], Mapping[int, int]] = lambda _: {}
    """Tells the resident bytes of processes, as far as that costs next to nothing."""

    tally: Callable[[Clock], Tally] = Tally  # makes what counts how jobs end that no child has ended
    surveyor: Callable[[Settings], Survey] | None = None
    """Gives who looks at the server of the store and at disks; None where nobody does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the supervisor is to keep up."""

    processes: int = 1
    queues: ServedQueues | None = None
    drain: bool = False
    hang_limit: float = Settings().hang_limit
    """Seconds that a child may be silent, as long as none has told what the app sets."""

    @property
    def queue_names(self) -> tuple[str, ...] | None:
        """The queues that are served; None for every queue."""
        return None if self.queues is None else self.queues.names
