"""What a look at a store finds: values that each store fills in, and that doctor puts into words.

A store's part is one function that returns an Examination, reached by `open.examine_store`. It only looks: it makes
no store, migrates none and writes nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from standfast.model.records import Record
from standfast.stores.values import Worker

KEPT = "an accepted job survives the crash of every process and, as far as the disk keeps its word, a power loss"
"""What an accepted job survives where nothing is wrong."""

_THOUSAND = 1000
_SHORT = 9.95
"""Below this a number of kB, MB … is told with a decimal."""


class Severity(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what was seen, and the remedy if there is something to mend. Never with a password."""

    check: str
    severity: Severity
    says: str
    remedy: str = ""

    @classmethod
    def ok(cls, check: str, says: str) -> Self:
        """Return that all is well."""
        return cls(check, Severity.OK, says)

    @classmethod
    def warning(cls, check: str, says: str, remedy: str) -> Self:
        """Return what may do harm."""
        return cls(check, Severity.WARNING, says, remedy)

    @classmethod
    def problem(cls, check: str, says: str, remedy: str) -> Self:
        """Return what does harm."""
        return cls(check, Severity.PROBLEM, says, remedy)

    @classmethod
    def of_error(cls, check: str, error: Exception) -> Self:
        """Return the problem that an error of ours tells: what is wrong, a colon, and the remedy."""
        says, _, remedy = str(error).partition(": ")
        return cls.problem(check, says, remedy)


@dataclass(frozen=True, slots=True)
class DueQueue:
    """A queue with due jobs that no worker has taken, the one that is due longest first."""

    name: str
    paused_at: datetime | None
    due: int
    oldest_due_at: datetime


@dataclass(frozen=True, slots=True)
class UnknownTask:
    """A task with jobs that workers put aside: none that came to them knew it with payloads of this version."""

    name: str
    version: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Census:
    """Who is there and what waits, by the store's time `now`.

    `latest_at` is the latest time that the store has written down as past: ahead of now, the clock was set back.
    `windows` are the records that tell when queues and tasks are closed, `incidents` those of what went wrong,
    `board` that of how alerts stand.
    """

    now: datetime
    workers: tuple[Worker, ...] = ()
    due: tuple[DueQueue, ...] = ()
    latest_at: datetime | None = None
    windows: tuple[Record, ...] = ()
    unknown: tuple[UnknownTask, ...] = ()
    dead: int = 0
    incidents: tuple[Record, ...] = ()
    board: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """All that a look at a store brought. `usable`: workers and clients could open it.

    There is no census of a store that is not usable, or not of this release yet.
    """

    findings: tuple[Finding, ...]
    usable: bool
    census: Census | None = None

    @classmethod
    def of(cls, findings: Sequence[Finding], vital: Collection[str], census: Census | None) -> Self:
        """Return what was found. A problem with a check that is `vital` keeps everybody out."""
        usable = not is_hopeless(findings, vital)
        return cls(tuple(findings), usable, census if usable else None)


def is_hopeless(findings: Iterable[Finding], vital: Collection[str]) -> bool:
    """Tell whether one of the vital checks found a problem."""
    return any(finding.severity is Severity.PROBLEM and finding.check in vital for finding in findings)


def sized(count: int) -> str:
    """Return a number of bytes as people say it: 812 bytes, 4.1 kB, 36 MB, 1.2 GB."""
    amount, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < _THOUSAND:
            break
        amount, unit = amount / _THOUSAND, larger
    return f"{amount:.1f} {unit}" if amount < _SHORT and unit != "bytes" else f"{amount:.0f} {unit}"
