"""Opens connections, and tells whether one still leads to the files of its name."""

import os
import threading
from collections.abc import Callable

from holdfast.errors import StoreUnavailableError
from holdfast.store.brief import refuse_foreign
from holdfast.store.sqlite.connect import Files, prepare
from holdfast.store.sqlite.forks import GATE, Connection, Identity


class Opener:
    """Opens connections to the files of one engine.

    The files are made ready before the first, and again when they were replaced: somebody may restore a backup
    while workers run.
    """

    def __init__(self, files: Files, namespace: str | None) -> None:
        self._files = files
        self._namespace = namespace
        self._names = (str(files.jobs), str(files.beats))  # a Path is slow to look up
        self._preparing = threading.Lock()
        self._prepared: Identity = ()

    @property
    def has_opened(self) -> bool:
        """Whether there is anything to tidy up."""
        return bool(self._prepared)

    def renew(self, previous: Connection | None, connect: Callable[[Files], Connection]) -> Connection:
        """Return the connection if it is of use still; else close it and open another. To be called in the gate."""
        if previous is not None and previous.is_open and previous.leads_to == self._identity():
            return previous
        if previous is not None:
            previous.close()
        GATE.refuse_crossed()
        found = self.prepare()
        connection = connect(self._files)
        # Looked up before opening: if the file was replaced in between, the next use finds out.
        connection.leads_to = found
        return connection

    def prepare(self) -> Identity:
        """Make the files ready where that was not done yet, and return which they are. To be called in the gate."""
        with self._preparing:
            found = self._identity()
            if self._prepared and found[0] is None:
                # Not to be made anew: an empty file would hide that all jobs are gone.
                raise StoreUnavailableError(
                    f"{self._files.jobs} was removed or cannot be reached any more while in use: put it back, or"
                    " restart to begin with an empty one"
                )
            if found != self._prepared:
                prepare(self._files, self._namespace, create=not self._prepared)
                self._prepared = found = self._identity()
            return found

    def _identity(self) -> Identity:
        jobs, beats = self._names
        return (_inode(jobs), _inode(beats))


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - the hot path
    except OSError as error:
        refuse_foreign(error)
        return None
    return (found.st_dev, found.st_ino)
