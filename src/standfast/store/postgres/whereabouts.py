"""Where one job is, at one moment: what a client decides upon before it moves the job, or ends it."""

from collections.abc import Mapping
from typing import NamedTuple

from standfast.core.states import FINAL, Reason, State
from standfast.store.sql_rows import Row
from standfast.store.verb import Query, Steps


class Whereabouts(NamedTuple):
    """A job and where it is, as it was at `now`. `after` is the claimed job that it is to follow."""

    id: str
    task: str
    key: str | None
    state: State
    reason: str | None
    finished_at: int | None
    keep_key: int
    after: str | None
    now: int

    @property
    def has_key(self) -> bool:
        """Whether its key, if it was the last to get it, is taken."""
        if self.state is State.COMPLETED and self.finished_at is not None:
            return self.now < self.finished_at + self.keep_key
        return self.state not in FINAL


def whereabouts(sql: Mapping[str, str], job_id: str, now: int | None) -> Steps[Whereabouts | None]:
    """Return where a job is now, by the time given or else the server's; None where there is no such job."""
    rows = yield Query(sql["whereabouts"], (now, job_id))
    return to_whereabouts(rows[0]) if rows else None


def to_whereabouts(row: Row) -> Whereabouts:
    """Return what `found` tells of a job."""
    id_, task, key, state, *rest = row
    return Whereabouts(id_, task, key, State(state), *rest)


def withdraw(sql: Mapping[str, str], job_id: str, reason: Reason, now: int | None) -> Steps[bool]:
    """Cancel a job that waits, for its time or for anything else; False where it does not, or does so no more.

    Someone else may claim it at the same moment: then this waits until that is decided.
    """
    rows = yield Query(sql["withdraw"], (now, job_id, reason.value))
    return bool(rows)
