"""Where the files of the jobs of a store are kept: in a folder that is set, or beside the store."""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from standfast.durable.files import SavedFile, files_among
from standfast.durable.shelf import Shelf
from standfast.errors import JobNotFoundError
from standfast.settings import Settings
from standfast.store.errand import Verbs, errand
from standfast.store.open import door_of
from standfast.store.protocol import Store

_BESIDE = "jobs"
"""The part of a folder that no other store uses; each namespace has its own."""


def shelf_of(settings: Settings, identify: Callable[[], str] | None = None) -> Shelf:
    """Return the shelf of the store that the settings name; nothing is made before a file is saved.

    `identify` tells which store that is, for who saves files.
    """
    return Shelf(partial(_folder, settings), _part(settings), settings.files_limit, identify)


def lasting_shelf_of(settings: Settings) -> Shelf | None:
    """Return the shelf whose files outlive the process; None where they go with it, as the jobs do."""
    return None if settings.files is None and settings.url.startswith("memory:") else shelf_of(settings)


@errand
def find_files(verbs: Store, shelf: Shelf, job_id: str) -> Verbs[Mapping[str, SavedFile]]:
    """Return where the files are that a job has saved, by name. Raises JobNotFoundError."""
    kept = files_among((yield verbs.memos(job_id)))
    if not kept and not (yield verbs.glance((job_id,))):
        raise JobNotFoundError(f"there is no job {job_id!r}, or it is over and forgotten")
    return {name: shelf.find(each) for name, each in kept.items()}


def _folder(settings: Settings) -> Path | None:
    return Path(settings.files).absolute() if settings.files else door_of(settings.url).files_beside(settings.url)


def _part(settings: Settings) -> str:
    """Return a name of its own for each store: no app may forget the files of another in the same folder."""
    if settings.files is None:
        return _BESIDE if settings.namespace is None else f"{_BESIDE}-{settings.namespace}"
    store = f"{door_of(settings.url).public_name(settings.url)} {settings.namespace or ''}".strip()
    readable = re.sub(r"\W+", "-", store, flags=re.ASCII).strip("-")[-40:].strip("-")
    return f"{readable}-{hashlib.sha256(store.encode()).hexdigest()[:8]}"
