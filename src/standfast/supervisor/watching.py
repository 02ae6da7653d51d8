"""Sees that the code of an app changes, for those who develop it."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5

SETTLED_AFTER = 0.1
"""Seconds without another change after which a save is over: an editor may empty a file before it writes it."""

MOST_FILES = 5000
"""Files that are looked at; a look must not take longer than the time to the next."""

_IGNORED = frozenset({"__pycache__", "node_modules", "site-packages"})
_OF_AN_ENVIRONMENT = "pyvenv.cfg"

Seen = Mapping[str, tuple[int, int]]
"""When each file was changed, and how long it was then."""


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
