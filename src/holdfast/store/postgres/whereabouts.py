"""Where one job is, at one moment: what a client decides upon before it moves the job."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.states import FINAL, State
from holdfast.store.postgres.rows import Row
from holdfast.store.verb import Query, Steps


class Whereabouts(NamedTuple):
    """A job and where it is, as it was at `now`. `after` is the claimed job that it is to follow."""

    id: str
    task: str
    queue: str
    priority: int
    key: str | None
    state: State
    run_at: int
    finished_at: int | None
    keep_key: int
    after: str | None
    fence: int
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
    id_, task, queue, priority, key, state, *rest = row
    return Whereabouts(id_, task, queue, priority, key, State(state), *rest)
