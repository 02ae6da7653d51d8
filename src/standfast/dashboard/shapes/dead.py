"""Dead jobs, grouped by what went wrong."""

from datetime import datetime

from standfast.dashboard.shapes.words import Asks, Told, When, Word


class DeadAsked(Asks, frozen=True, kw_only=True):
    """Which dead jobs to group."""

    task: Word | None = None
    queue: Word | None = None
    since: When | None = None


class DeadGroup(Told, frozen=True, kw_only=True):
    """Dead jobs with errors of one `shape`; `error` is the newest. `first` and `last` are when they ended."""

    fingerprint: str
    error: str
    shape: str
    count: int
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    first: datetime
    last: datetime
    example: str


class DeadSeen(Told, frozen=True, kw_only=True):
    """Groups, the largest first, of the newest `span` dead jobs at most; `total` is how many there are in all."""

    now: datetime
    groups: tuple[DeadGroup, ...]
    looked_at: int
    total: int
    span: int
