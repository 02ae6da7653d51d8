"""Incidents on disk: a folder each, readable by nobody else, whole or not at all."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from standfast.core.incident import Evidence, Incident
from standfast.incidents.files import SUMMARY_FILE, files_of
from standfast.incidents.keeping import Keeping, Kept, outdated
from standfast.incidents.trimming import fit_name

_UNFINISHED = ".unfinished"
_OTHERS = 0o077


class Folders:
    """The folders of one machine's incidents. All of it may raise OSError, and belongs to a thread of its own."""

    def __init__(self, keeping: Keeping) -> None:
        self.keeping = keeping
        self._place: Path | None = None
        self.instead_of: OSError | None = None
        """Why folders are not where they should be, if they are not."""

    def write(self, incident: Incident, evidence: Evidence) -> str:
        """Write a new folder and return where it is."""
        folder = self._found() / fit_name(incident.id)
        incident = replace(incident, folder=str(folder))
        unfinished = folder.with_suffix(_UNFINISHED)
        unfinished.mkdir(mode=0o700)
        try:
            for name, content in files_of(incident, evidence).items():
                _write_file(unfinished / name, content)
            unfinished.rename(folder)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return str(folder)

    def rewrite(self, incident: Incident, evidence: Evidence, folder: str) -> None:
        """Bring a folder up to date, unless somebody has removed it: its summary, and the parts that are given."""
        with suppress(FileNotFoundError):
            for name, content in files_of(incident, evidence).items():
                unfinished = Path(folder, f"{name}{_UNFINISHED}")
                unfinished.unlink(missing_ok=True)
                _write_file(unfinished, content)
                unfinished.rename(Path(folder, name))

    def sweep(self, now: datetime) -> None:
        """Remove folders that are too many, too old, or beyond the room."""
        place = self._found()
        for name in outdated(_kept_in(place), self.keeping, now):
            shutil.rmtree(place / name, ignore_errors=True)

    def _found(self) -> Path:
        if self._place is None or not self._place.is_dir():
            self._place = self._find()
        return self._place

    def _find(self) -> Path:
        """Return the folder of folders: where the settings say, else the usual place, else a temporary one."""
        try:
            self.instead_of = None
            return _made(usual_place() if self.keeping.folder is None else Path(self.keeping.folder).expanduser())
        except (OSError, RuntimeError) as error:  # a user without a home is a RuntimeError
            self.instead_of = error if isinstance(error, OSError) else OSError(str(error))
            own = _made(Path(tempfile.gettempdir(), f"standfast-{os.getuid()}"))
            about = own.lstat()
            if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or about.st_mode & _OTHERS:
                raise PermissionError(f"{own} is not private to this user") from error
            return _made(own / "incidents")


def usual_place() -> Path:
    """Return where folders are unless the settings say otherwise. Raises RuntimeError for a user without a home."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local/state") / "standfast/incidents"


def _made(place: Path) -> Path:
    """Make a folder that only its owner may enter, and see whether it can be written to."""
    place = place.absolute()
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    Path(tempfile.mkdtemp(dir=place, prefix=".", suffix=_UNFINISHED)).rmdir()
    return place


def _write_file(file: Path, content: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)


def _kept_in(place: Path) -> Iterator[Kept]:
    """Yield the folders of incidents: they have a summary, which is written last. Anything else is not ours."""
    for folder in place.iterdir():
        with suppress(OSError):  # another supervisor may be just about to remove it
            changed_at = (folder / SUMMARY_FILE).stat().st_mtime
            size = sum(file.stat().st_size for file in folder.iterdir())
            yield Kept(folder.name, datetime.fromtimestamp(changed_at, UTC), size)
