"""A folder in which processes of one machine count that are scraped at one place, such as those of one web server.

Each counts in a file of its own, which it has locked for as long as it does: the kernel lets go of the lock
however it ends. Whoever begins takes in the files of those who have ended (`folding.py`); whoever is scraped adds
up what is there, and waits for nobody.
"""

import logging
import os
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.metrics.agreed import Agreed
from standfast.metrics.cells import VERSION, Name
from standfast.metrics.folding import ENDED, Ended, counted_of, counts_in, fold, new_name
from standfast.metrics.meter import Meter
from standfast.metrics.ownfiles import NEW, read_own, try_lock
from standfast.metrics.totals import Sums

log = logging.getLogger(__name__)

_AGREED = f"named.v{VERSION}.jsonl"


class SharedMeter(Meter):
    """Counts in a shared folder, until it is closed or its process ends. `lock` is its file, open and locked."""

    def __init__(self, path: Path, lock: int, agreed: Agreed) -> None:
        super().__init__(path)
        self._locked: int | None = lock
        self._agreed = agreed

    def close(self) -> None:
        """Let go of the file: the next who begins takes it in."""
        super().close()
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def _tells(self, name: Name) -> bool:
        """Tell whether a pair is among those that all who count here tell by name."""
        return self._agreed.admits(name)


class SharedFolder:
    """The folder. It is made by the first who counts there, for its user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def meter(self) -> SharedMeter:
        """Begin to count in a new file. Raises OSError where none can be made."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fold(self.path)
        except OSError as error:
            log.warning("what ended workers counted stays in files of its own: %s: %s", self.path, error.strerror)
        path, lock = self._begun()
        try:
            return SharedMeter(path, lock, Agreed(self.path / _AGREED))
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(lock)
            raise

    def required_meter(self) -> SharedMeter:
        """Begin to count. Raises ConfigurationError where that cannot be, as something has to be put right."""
        try:
            return self.meter()
        except FileExistsError as error:
            raise ConfigurationError(f"metrics_dir={self.path} is not a folder; name one, or none") from error
        except OSError as error:
            raise ConfigurationError(
                f"metrics cannot be counted in metrics_dir={self.path}: {error.strerror}; name a folder that this"
                " process may write to"
            ) from error

    def sums(self) -> Sums:
        """Return all that was counted up to now. Raises OSError where a part of it cannot be read.

        What ended meanwhile and was taken in is in another sum by then: so all is read until that has not changed.
        """
        while True:
            before = read_own(self.path / ENDED)
            ended = Ended.read(before)
            sums = Sums({})
            sums.add(ended.counted)
            for name in counts_in(self.path):
                if name not in ended.taken:
                    sums.add(counted_of(read_own(self.path / name)))
            if read_own(self.path / ENDED) == before:
                return sums

    def _begun(self) -> tuple[Path, int]:
        """Make a file and lock it; another where somebody took it in before it was locked."""
        while True:
            path = self.path / new_name()
            lock = os.open(path, os.O_RDWR | os.O_EXCL | NEW, 0o600)
            if try_lock(lock) and path.exists():
                return path, lock
            os.close(lock)
