"""Who works, and what keeps its lease: the values of `register` and `beat`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from standfast.core.job import ClaimRef, KnownTask
from standfast.core.provenance import DELIVERIES
from standfast.core.vitals import Vitals

BURIED_KEPT = timedelta(days=1)
"""How long it is remembered that a worker was buried, so that a late registration cannot raise it."""


class LeaseClock(Enum):
    """By which clock a store measures how long ago a beat was."""

    BOOT = "boot"
    """The machine's own since it booted, which nobody can set."""
    SERVER = "server"
    """The server's, which somebody may set. A step forward makes every beat look old, until the next one. A beat
    that seems to come from the future, after a step back, counts from when someone else beats."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker incarnation as it registers. `supervisor` groups the children of one parent."""

    id: str
    supervisor: str
    host: str
    pid: int
    lease: timedelta
    queues: tuple[str, ...] | None = None
    concurrency: int = 1

    @property
    def is_courier(self) -> bool:
        """Whether it does nothing but deliver notices, as supervisors do for some seconds: it is not counted on."""
        return self.queues == (DELIVERIES,)


class WorkerBeat(msgspec.Struct, frozen=True):
    """One worker is alive; its claim calls up to `closed_call` are over, and of those it still has `held`.

    `polled_at` is when, by the store's time, it last looked for work without being called, and `vitals` how it is:
    its last word counts, and None is no news of that.
    """

    worker: str
    closed_call: int = 0
    held: frozenset[ClaimRef] = frozenset()
    polled_at: datetime | None = None
    vitals: Vitals | None = None


class Turn(msgspec.Struct, frozen=True):
    """A worker's place among the `of` living ones that serve the same queues, by their ids; the first has rank 0.

    `polled_at` is when any of them last looked for work without being called, as far as their beats have told.
    """

    rank: int
    of: int
    polled_at: datetime | None = None


class DueSuspects(msgspec.Struct, frozen=True, order=True):
    """So many suspects of one group are due in a queue, and unclaimed."""

    queue: str
    group: int
    jobs: int


class BeatAnswer(msgspec.Struct, frozen=True):
    """What a beat brings back.

    accepted: workers whose lease is renewed; any other was buried or condemned and must stop.
    revoked: claims whose job was asked to cancel.
    replaced: claims whose job is to give way to another with its key: back with them if they have not started.
    paused: the paused queues: what is held of them and not started must go back.
    unnamed: workers that own claims of closed calls which they did not name: call `reconcile` for each.
    expired: workers without a beat for longer than their lease, or already condemned: `condemn`, then `bury`. None
        of those who beat in this call, accepted or not.
    next_expiry: how long until the next lease of someone else, not yet expired, runs out; None without anyone.
    blocked: what waits as blocked(no_worker).
    suspects: which suspects are due and unclaimed in queues that are not paused.
    turns: the place of each accepted worker among its like; those who are expired or condemned do not count.
    record_due_at: the earliest `due_at` of all records.
    """

    accepted: frozenset[str]
    now: datetime
    revoked: Mapping[str, tuple[ClaimRef, ...]] = {}
    replaced: Mapping[str, tuple[ClaimRef, ...]] = {}
    paused: frozenset[str] = frozenset()
    unnamed: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()
    next_expiry: timedelta | None = None
    blocked: frozenset[KnownTask] = frozenset()
    suspects: frozenset[DueSuspects] = frozenset()
    turns: Mapping[str, Turn] = {}
    record_due_at: datetime | None = None
