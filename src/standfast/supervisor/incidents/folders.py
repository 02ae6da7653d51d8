"""Writes incidents to disk, in a thread: fit to be kept, without secrets, a folder each, whole or not at all."""

import logging
import os
import queue
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from standfast.model.clock import Clock
from standfast.model.incidents import Evidence, Incident
from standfast.model.redaction import redact_text
from standfast.model.secrets import NO_SECRETS, Scrub
from standfast.observe.incidents import Kept, Retention, outdated

LONGEST_PART = 64 * 1024  # bytes of one part of the evidence that are kept: its beginning and its end
LARGEST = 256 * 1024  # bytes of all parts together
MOST_PARTS = 32

_LONGEST_READ = 2 * LONGEST_PART
"""Characters of a part that are looked at: what is cut away before is not searched for secrets."""

_UNFIT = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST_NAME = 60
_LINE_WITHIN = 400  # a cut moves by so many characters at most to be at the end of a line


def bounded(evidence: Evidence) -> Evidence:
    """Return evidence of which no more is left than will be looked at; that takes no time."""
    parts = list(evidence.parts.items())[:MOST_PARTS]
    half = _LONGEST_READ // 2
    return Evidence(
        {
            name: text if len(text) <= _LONGEST_READ else _joined(text[:half], text[-half:], len(text))
            for name, text in parts
        }
    )


def fit_evidence(evidence: Evidence, scrub: Scrub = NO_SECRETS) -> Evidence:
    """Return evidence without secrets, within its limits."""
    parts: dict[str, str] = {}
    for name, text in bounded(evidence).parts.items():
        sound = text.encode(errors="replace").decode().replace("\0", "�")  # every store and file can hold it
        cleaned = redact_text(sound, scrub)
        parts[_unused(fit_name(name), parts)] = cut_middle(cleaned, LONGEST_PART)
    fair = _fair_share([len(text.encode()) for text in parts.values()], LARGEST)
    return Evidence({name: cut_middle(text, fair) for name, text in parts.items()})


def fit_name(name: str) -> str:
    """Return a name as it can be that of a file, wherever it came from."""
    return _UNFIT.sub("_", name).strip("._-")[:_LONGEST_NAME] or "part"


def cut_middle(text: str, limit: int) -> str:
    """Return at most `limit` bytes of a text and a word about the rest: how it began and how it ended counts."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    head = encoded[: limit // 2].decode(errors="ignore")
    tail = encoded[-(limit - limit // 2) :].decode(errors="ignore")
    return _joined(head, tail, len(text))


def _joined(head: str, tail: str, length: int) -> str:
    """Return both ends of a text of this length with a word in between, cut at the ends of lines if near."""
    line_end = head.rfind("\n", max(0, len(head) - _LINE_WITHIN))
    line_begin = tail.find("\n", 0, _LINE_WITHIN)
    head = head if line_end < 0 else head[:line_end]
    tail = tail if line_begin < 0 else tail[line_begin + 1 :]
    return f"{head}\n… {length - len(head) - len(tail):,} characters left out …\n{tail}"


def _fair_share(sizes: list[int], room: int) -> int:
    """Return how large a part may be so that all together fit: small ones stay whole, large ones share the rest."""
    share = room
    for index, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - index)
        if size > share:
            return share
        room -= size
    return max(sizes, default=share)


def _unused(name: str, parts: dict[str, str]) -> str:
    number = 1
    unused = name
    while unused in parts:
        number += 1
        unused = f"{name}-{number}"
    return unused


SUMMARY_FILE = "incident.json"


def files_of(incident: Incident, evidence: Evidence) -> Mapping[str, bytes]:
    """Return the contents of its files by name: the incident itself, and a text for each part of the evidence."""
    parts = {f"{fit_name(name)}.txt": text.encode(errors="replace") for name, text in evidence.parts.items()}
    return {SUMMARY_FILE: msgspec.json.format(msgspec.json.encode(incident), indent=2) + b"\n", **parts}


_UNFINISHED = ".unfinished"
_OTHERS = 0o077


class Folders:
    """The folders of one machine's incidents. All of it may raise OSError, and belongs to a thread of its own."""

    def __init__(self, keeping: Retention) -> None:
        self.keeping = keeping
        self._place: Path | None = None
        self.instead_of: OSError | None = None  # why folders are not where they should be, if they are not

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


log = logging.getLogger(__name__)
MOST_WAITING = 200  # writes that wait for a slow disk; beyond that none are taken in
SWEEP_AFTER = 20  # new folders after which old ones are looked for
LOOK_EVERY = 0.005

_NOTHING = Evidence()


@dataclass(slots=True)
class Filed:
    """What became of an incident: its evidence, fit to be kept, and its folder, if it has one when `over`."""

    evidence: Evidence | None = None
    folder: str | None = None
    over: Future[None] = field(default_factory=Future)


class FolderWriter:
    """Takes incidents in, and writes each as a folder. Nothing here raises, and what fails is said once."""

    def __init__(self, keeping: Retention, clock: Clock) -> None:
        self._folders = Folders(keeping)
        self._clock = clock
        self._wishes: queue.Queue[Callable[[Folders], None]] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._since_sweep = SWEEP_AFTER
        self._failing = False
        self._elsewhere = False

    def learn(self, keeping: Retention) -> None:
        """Go on with other settings; folders that were written stay where they are."""
        if keeping != self._folders.keeping:
            self._folders = Folders(keeping)

    def file(self, incident: Incident, evidence: Evidence, scrub: Scrub) -> Filed:
        """Write a new incident soon."""
        filed = Filed()
        if not self._put(partial(self._write, incident, evidence, scrub, filed)):
            filed.over.set_result(None)
        return filed

    def update(self, incident: Incident, filed: Filed, evidence: Evidence = _NOTHING) -> None:
        """Write soon what has changed of an incident, and of its evidence."""
        self._put(partial(_rewrite, incident, filed, evidence))

    def sweep(self) -> None:
        """Remove soon what is too much or too old."""
        self._put(self._sweep)

    def close(self, seconds: float) -> None:
        """Wait until all is written, but no longer than this."""
        give_up_at = time.monotonic() + seconds
        while self._wishes.unfinished_tasks and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY)

    def _put(self, wish: Callable[[Folders], None]) -> bool:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="standfast-incidents", daemon=True)
            self._thread.start()
        try:
            self._wishes.put_nowait(wish)
        except queue.Full:
            self._tell_failing("the disk does not answer")
            return False
        return True

    def _run(self) -> None:
        while True:
            wish, folders = self._wishes.get(), self._folders
            try:
                wish(folders)
                self._failing = False
            except OSError as error:
                self._tell_failing(str(error))
            except Exception:  # the next incident is to be written, whatever is wrong with this one
                log.exception("an incident could not be written to disk")
            finally:
                self._wishes.task_done()

    def _write(self, incident: Incident, evidence: Evidence, scrub: Scrub, filed: Filed, folders: Folders) -> None:
        try:
            filed.evidence = fit_evidence(evidence, scrub)
            filed.folder = folders.write(incident, filed.evidence)
        finally:
            filed.over.set_result(None)
        if folders.instead_of is not None and not self._elsewhere:
            self._elsewhere = True
            log.warning(
                "the folders of incidents are in a temporary place, %s: %s", filed.folder, folders.instead_of
            )
        self._since_sweep += 1
        if self._since_sweep > SWEEP_AFTER:
            self._sweep(folders)

    def _sweep(self, folders: Folders) -> None:
        self._since_sweep = 0
        folders.sweep(self._clock.now())

    def _tell_failing(self, why: str) -> None:
        if not self._failing:
            self._failing = True
            log.warning("incidents cannot be written to disk, only to the store: %s", why)


def _rewrite(incident: Incident, filed: Filed, evidence: Evidence, folders: Folders) -> None:
    if filed.folder is not None:
        folders.rewrite(replace(incident, folder=filed.folder), evidence, filed.folder)
