"""Small named documents that change by comparison of versions, and what was decided about fires.

A schedule is such a record. Whoever wants to change one says which version it has seen; if it has changed since,
nothing happens. What comes of the change, jobs and fires, is written with it or not at all: so of many who come to
fire a schedule at the same time one does.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.job import NewJob


class Kind(StrEnum):
    """What a record is about."""

    SCHEDULE = "schedule"
    RELEASE = "release"
    """Which releases of an app there were, the newest last: so that an older one undoes nothing."""
    WINDOW = "window"
    """When a queue or a task is closed."""
    INCIDENT = "incident"
    """What went wrong with a process, in short."""
    EVIDENCE = "evidence"
    """What was found about the incident of the same name."""
    ORDER = "order"
    """What a person asks of supervisors, due at once and forgotten soon."""
    PERMIT = "permit"
    """Who may do what only one machine of the fleet may do at a time, and until when."""
    CATALOGUE = "catalogue"
    """What a release of an app consists of: its tasks, queues and settings, as its workers publish it."""
    LOCK = "lock"
    """Who holds a lock or a place of a semaphore, who waits for it, and the last token; forgotten long after."""
    STORE = "store"
    """Which store this is: a random id, made once."""
    AUDIT = "audit"
    """Some of what was done by people through the dashboard, and by whom."""
    TALLY = "tally"
    """What one process has counted in a minute, due when it is to be folded into the figures of that minute."""
    FIGURES = "figures"
    """What all have counted in a minute, ten of them or an hour; due when it is to be folded, or forgotten."""

    BOARD = "board"
    """How the alerts stand and when to look next; what was decided about rules and silences."""
    NOTICE = "notice"
    """What people were told, or are to be told; forgotten when it is old."""


class Record(msgspec.Struct, frozen=True):
    """A document of this kind and name. `version` is 1 at first and + 1 at each change.

    `due_at` is when somebody should look at it next. Stores do not read the body. `token` is that of the change
    that made this version: it tells it from the same version of another that had this name and was forgotten.
    """

    kind: Kind
    name: str
    version: int
    due_at: datetime | None
    body: bytes
    token: str


T = TypeVar("T")


def decoded(content: bytes, kind: type[T]) -> T | None:
    """Return what a JSON text says; None where it is not of this kind, or no JSON at all."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ConfigurationError, UnicodeDecodeError, RecursionError):
        return None


def read_body(record: Record, kind: type[T]) -> T | None:
    """Return what a record says; None where it is of another release, or somebody wrote nonsense into the store."""
    return decoded(record.body, kind)


class Decision(StrEnum):
    """What was decided about a fire."""

    FIRED = "fired"
    CAUGHT_UP = "caught_up"
    """Fired after it was missed."""
    QUEUED = "queued"
    """It waits for the end of a run before it, and is then fired after all."""
    OVERLAPPED = "overlapped"
    """Not fired, because a run before it was not over."""
    MISSED = "missed"
    """Not fired, because nobody was there in time."""
    EXCLUDED = "excluded"
    """Not fired, because the calendar says so."""
    REVOKED = "revoked"
    """Fired ahead of its time, and taken back before it came."""


class FireCause(StrEnum):
    """Why there is a fire at all."""

    RULE = "rule"
    TRIGGER = "trigger"
    BACKFILL = "backfill"


class Fire(msgspec.Struct, frozen=True):
    """What became of one planned time of a schedule, or of `count` in a row of which `until` is the last.

    (schedule, planned, cause) is unique. `decided_at` is set by the store.
    """

    schedule: str
    planned: datetime
    decision: Decision
    cause: FireCause = FireCause.RULE
    count: int = 1
    until: datetime | None = None
    job_id: str | None = None
    note: str | None = None
    decided_at: datetime | None = None


class Change(msgspec.Struct, frozen=True):
    """A wish to change a record of which version `seen` is known, or to make it (0), and what comes of that.

    `token` is made anew for each wish: one whose answer was lost is repeated with it and gets the same answer.
    `after` is the token of what was seen: given it, one that was made anew under the name since is left alone.
    `body` None forgets the record and its fires. A fire that is known already is overwritten. `cancels` are jobs to
    cancel as the verb `cancel` does; those that are unknown or final are passed over. `withdraws` likewise, but
    where a worker has one of them nothing of the whole call happens, and it raises JobStateError.
    """

    kind: Kind
    name: str
    seen: int
    token: str
    body: bytes | None
    due_at: datetime | None = None
    fires: tuple[Fire, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    cancels: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()
    after: str | None = None


def writing(
    kind: Kind, name: str, says: Any, due_at: datetime | None = None, before: Record | None = None
) -> Change:
    """Return the change that has a record say this in the place of what was seen; without `before`, a new one."""
    seen, after = (0, None) if before is None else (before.version, before.token)
    return Change(kind, name, seen, str(uuid4()), msgspec.json.encode(says), due_at=due_at, after=after)


def forgetting(record: Record) -> Change:
    """Return the change that forgets a record as it was seen."""
    return Change(record.kind, record.name, record.version, str(uuid4()), None, after=record.token)


FIRES_KEPT = 1000
"""How many fires of each schedule are kept, the latest planned."""
