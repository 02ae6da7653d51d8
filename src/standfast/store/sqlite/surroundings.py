"""Where a store's files lie: may they be written, on what file system, and is there room."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from standfast.errors import StoreError
from standfast.store.examination import Finding, sized
from standfast.store.sqlite.connect import Files
from standfast.store.sqlite.filesystem import file_system_of, refuse_network_file_system

SCARCE_BYTES = 500_000_000
SCARCE_SHARE = 0.05

_MOUNTS = Path("/proc/mounts")


def look_around(files: Files) -> Iterator[Finding]:
    """Yield what is found without opening anything."""
    folder = files.jobs.parent
    if not folder.is_dir():
        yield Finding.problem("permissions", f"there is no folder {folder}", f"create it with `mkdir -p {folder}`")
        return
    yield _permissions(files)
    yield _file_system(files.jobs)
    yield _room(folder)


def _permissions(files: Files) -> Finding:
    forbidden = [str(path) for path, wanted in _wanted(files) if path.exists() and not os.access(path, wanted)]
    if forbidden:
        return Finding.problem(
            "permissions",
            f"this user may not read and write {', '.join(forbidden)}",
            "give the user that runs workers and clients these rights, on the folder too",
        )
    return Finding.ok("permissions", f"{files.jobs.parent} and the files of the store are writable")


def _wanted(files: Files) -> Iterator[tuple[Path, int]]:
    """Yield whatever the store consists of, with the rights that it takes."""
    yield files.jobs.parent, os.R_OK | os.W_OK | os.X_OK
    yield files.bell, os.R_OK | os.W_OK | os.X_OK
    for file in (files.jobs, files.beats):
        for end in ("", "-wal", "-shm"):
            yield file.with_name(file.name + end), os.R_OK | os.W_OK


def _file_system(path: Path) -> Finding:
    try:
        refuse_network_file_system(path)
    except StoreError as error:
        return Finding.of_error("file system", error)
    try:
        kind = file_system_of(path, _MOUNTS.read_text("utf-8", "surrogateescape"))
    except OSError:
        kind = ""
    return Finding.ok("file system", f"{kind or 'of unknown kind'}, not a network file system that we know")


def _room(folder: Path) -> Finding:
    total, _, free = shutil.disk_usage(folder)
    says = f"{sized(free)} of {sized(total)} are free"
    if free < SCARCE_BYTES or free < total * SCARCE_SHARE:
        return Finding.warning("disk space", says, "free some: on a full disk nothing can be enqueued or finished")
    return Finding.ok("disk space", says)
