"""Files that jobs save: their names, and what a memo tells of one. The bytes are on a shelf, not in the store."""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import msgspec

from standfast.errors import ArgumentsError, ConfigurationError, JobNotFoundError, PayloadError
from standfast.model.configuration import Settings
from standfast.model.display import in_bytes
from standfast.model.job import ClaimRef
from standfast.model.memos import Memo
from standfast.stores.contract import Store
from standfast.stores.url import store_kind, sync_folder
from standfast.stores.verb import Verbs, procedure

LONGEST_NAME = 100
MOST_NAME_BYTES = 200
"""A folder takes names of 255 bytes, and what tells one saving from another goes before it."""

_PREFIX = "file:"
_SEPARATORS = frozenset("/\\:")


class SavedFile(msgspec.Struct, frozen=True):
    """A file that a job has saved: where it is, how many bytes it has, and their SHA-256 in hexadecimal."""

    name: str
    path: Path
    size: int
    sha256: str


class StoredFile(msgspec.Struct, frozen=True):
    """What the store knows of a file. `place` is its path on the shelf, wherever that is on a machine."""

    name: str
    place: str
    size: int
    sha256: str
    saved_at: datetime


class _Body(msgspec.Struct, frozen=True):
    place: str
    size: int
    sha256: str
    saved_at: datetime


_body = msgspec.json.Decoder(_Body)


def check_name(name: str) -> str:
    """Return the name of a file. Refuses one that could mean a place elsewhere, or that no folder takes."""
    if not isinstance(name, str):
        raise ArgumentsError(f"the name of a file must be a text, not {type(name).__name__}")
    good = 1 <= len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip() and name[0] != "."
    if not good or _SEPARATORS & set(name) or len(name.encode(errors="replace")) > MOST_NAME_BYTES:
        raise ArgumentsError(
            f"{name[: LONGEST_NAME + 1]!r} cannot be the name of a file: that is 1 to {LONGEST_NAME} printable"
            " characters without '/', '\\' and ':', and does not begin with a dot"
        )
    return name


def file_memo(kept: StoredFile) -> Memo:
    """Return what is written down about a file."""
    return Memo(
        f"{_PREFIX}{kept.name}", msgspec.json.encode(_Body(kept.place, kept.size, kept.sha256, kept.saved_at))
    )


def files_among(memos: Iterable[Memo]) -> Mapping[str, StoredFile]:
    """Return the files that are told of among the memos of a job, by name. Raises PayloadError."""
    named = {memo.name.removeprefix(_PREFIX): memo.body for memo in memos if memo.name.startswith(_PREFIX)}
    return {name: _read(name, body) for name, body in sorted(named.items())}


def _read(name: str, body: bytes) -> StoredFile:
    try:
        told = _body.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError(f"what is stored about file {name!r} cannot be read: {error}") from error
    return StoredFile(name, told.place, told.size, told.sha256, told.saved_at)


# Where the bytes of saved files are: a folder for each job, and in it a file for each saving.
#
#     FOLDER/STORE-ID/JOB/FENCE-TOKEN-NAME
#
# A file gets its name when all of it is on the disk. A saving never writes over another one: which of them counts is
# what the memo in the store says, which is fenced, so that an attempt which has lost its job changes nothing. Several
# stores may use one folder: each looks after its own part of it, which has the random id of the store in its name. So
# it leaves the files of another store of the same URL alone: of another machine, say, or from before it was emptied.

Source = bytes | bytearray | memoryview | os.PathLike[str]
"""What can be saved: bytes, or a file."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600

_AT_ONCE = 1024 * 1024
_UNSET = (
    "there is no folder for the files of jobs: set files, as in Standfast(files=...) or STANDFAST_FILES, to one"
    " that workers and readers share"
)


class FileStore:
    """The files of the jobs of one store. `find_folder` is asked when it is needed; None is no folder.

    Its part of the folder is called by `name`, and by the id that `identify` asks the store for.
    A file has at most `limit` bytes.
    """

    def __init__(
        self,
        find_folder: Callable[[], Path | None],
        name: str,
        limit: int,
        identify: Callable[[], str] | None = None,
    ) -> None:
        self._find_folder = find_folder
        self._name = name
        self._limit = limit
        self._identify = identify
        self._part = ""

    def bind(self, identity: str) -> None:
        """Look after the files of the store that has this id, from now on."""
        self._part = f"{self._name}-{identity}"

    @property
    def folder(self) -> Path:
        """The folder. Raises ConfigurationError where none is set."""
        folder = self._find_folder()
        if folder is None:
            raise ConfigurationError(_UNSET)
        return folder

    def is_there(self) -> bool:
        """Tell whether there is such a folder yet."""
        folder = self._find_folder()
        return folder is not None and folder.is_dir()

    @property
    def own_part(self) -> Path | None:
        """The part of the folder that is this store's, if it is known which that is, and there is such a folder."""
        folder = self._find_folder()
        part = None if folder is None or not self._part else folder / self._part
        return part if part is not None and part.is_dir() else None

    def parts_of_others(self) -> list[Path]:
        """Return the parts that bear the name of this store and are not its own."""
        if not self.is_there():
            return []
        alike = re.compile(re.escape(self._name) + "(-[0-9a-f]{16})?")
        return sorted(
            each for each in self.folder.iterdir() if alike.fullmatch(each.name) and each.name != self._part
        )

    def put(self, ref: ClaimRef, name: str, source: Source) -> StoredFile:
        """Write a file down for good; nobody knows of it yet. Raises ArgumentsError for what cannot be saved."""
        folder = self.folder
        if not self._part:
            if self._identify is None:
                raise ConfigurationError("files can be saved by a worker of the store alone")
            self.bind(self._identify())
        place = Path(self._part, _as_name(ref.job_id), f"{ref.fence}-{secrets.token_hex(4)}-{name}")
        target = folder / place
        if isinstance(source, str) or not isinstance(source, bytes | bytearray | memoryview | os.PathLike):
            raise ArgumentsError(
                f"file {name!r} must be bytes, or the pathlib.Path of a file, not {type(source).__name__}; of a"
                " text give its bytes, text.encode()"
            )
        _make_folder(target.parent)
        unfinished = target.with_name(f".{target.name[:60]}.part")
        try:
            opened = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            with os.fdopen(opened, "wb") as file:
                size, sha256 = self._copy(name, source, file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
        return StoredFile(name, str(place), size, sha256, datetime.now(UTC))

    def drop(self, kept: StoredFile) -> None:
        """Remove a file in whose place the store knows of another one."""
        with suppress(OSError):
            (self.folder / kept.place).unlink()

    def drop_earlier(self, ref: ClaimRef, kept: StoredFile) -> None:
        """Remove what earlier claims have saved under its name, and all that they have left half-written.

        Not what a later claim may have saved meanwhile.
        """
        with suppress(OSError):
            for each in (self.folder / kept.place).parent.iterdir():
                fence, _, named = each.name.removeprefix(".").partition("-")
                unfinished = each.name.startswith(".")
                if (
                    fence.isdigit()
                    and int(fence) < ref.fence
                    and (unfinished or named.partition("-")[2] == kept.name)
                ):
                    each.unlink(missing_ok=True)

    def find(self, kept: StoredFile) -> SavedFile:
        """Return where a file is on this machine."""
        place = Path(kept.place)
        if place.is_absolute() or ".." in place.parts:
            raise PayloadError(f"what is stored about file {kept.name!r} names no place on a shelf")
        return SavedFile(kept.name, self.folder / place, kept.size, kept.sha256)

    # -- forgotten jobs --------------------------------------------------------------------------------------

    def jobs(self, older_than: float) -> Iterator[str]:
        """Yield the ids of the jobs that have files, but for those to which something came so lately."""
        part = self.own_part
        if part is None:
            return
        with os.scandir(part) as folders:
            for each in folders:
                with suppress(OSError):
                    if each.is_dir(follow_symlinks=False) and time.time() - each.stat().st_mtime >= older_than:
                        yield unquote(each.name)

    def forget(self, job_id: str) -> None:
        """Remove all files of a job."""
        part = self.own_part
        if part is not None:
            shutil.rmtree(part / _as_name(job_id), ignore_errors=True)

    def _copy(self, name: str, source: Source, file: BinaryIO) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        for chunk in _chunks(source):
            size += len(chunk)
            if size > self._limit:
                raise ArgumentsError(
                    f"file {name!r} has more than {in_bytes(self._limit)}, which is all that may be saved"
                    " (files_limit)"
                )
            digest.update(chunk)
            file.write(chunk)
        return size, digest.hexdigest()


def _chunks(source: Source) -> Iterator[bytes | memoryview]:
    if isinstance(source, os.PathLike):
        with Path(source).open("rb") as file:
            while chunk := file.read(_AT_ONCE):
                yield chunk
        return
    with memoryview(source).cast("B") as view:
        for start in range(0, len(view), _AT_ONCE):
            yield view[start : start + _AT_ONCE]


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, for their owner alone, and see to it that they stay."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(FOLDER_MODE)
        sync_folder(each.parent)


def _as_name(job_id: str) -> str:
    """Return a job's id as the name of a folder, whatever it is."""
    return quote(job_id, safe="").replace(".", "%2E")


_BESIDE = "jobs"
"""The part of a folder that no other store uses; each namespace has its own."""


def file_store_of(settings: Settings, identify: Callable[[], str] | None = None) -> FileStore:
    """Return the shelf of the store that the settings name; nothing is made before a file is saved.

    `identify` tells which store that is, for who saves files.
    """

    def folder() -> Path | None:
        where, url = settings.files, settings.url
        return Path(where).absolute() if where else store_kind(url).files_beside(url)

    return FileStore(folder, _part(settings), settings.files_limit, identify)


def lasting_file_store_of(settings: Settings) -> FileStore | None:
    """Return the shelf whose files outlive the process; None where they go with it, as the jobs do."""
    return None if settings.files is None and settings.url.startswith("memory:") else file_store_of(settings)


@procedure
def find_files(verbs: Store, shelf: FileStore, job_id: str) -> Verbs[Mapping[str, SavedFile]]:
    """Return where the files are that a job has saved, by name. Raises JobNotFoundError."""
    kept = files_among((yield verbs.memos(job_id)))
    if not kept and not (yield verbs.glance((job_id,))):
        raise JobNotFoundError(f"there is no job {job_id!r}, or it is over and forgotten")
    return {name: shelf.find(each) for name, each in kept.items()}


def _part(settings: Settings) -> str:
    """Return a name of its own for each store: no app may forget the files of another in the same folder."""
    if settings.files is None:
        return _BESIDE if settings.namespace is None else f"{_BESIDE}-{settings.namespace}"
    store = f"{store_kind(settings.url).public_name(settings.url)} {settings.namespace or ''}".strip()
    readable = re.sub(r"\W+", "-", store, flags=re.ASCII).strip("-")[-40:].strip("-")
    return f"{readable}-{hashlib.sha256(store.encode()).hexdigest()[:8]}"
