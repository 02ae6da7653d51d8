"""What clients ask for: enqueue, cancel, requeue, discard, pause."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.job import Cancellation, NewJob
from holdfast.core.states import CLAIMED, FINAL, MOVES, Move, Reason, State
from holdfast.errors import JobNotFoundError, JobStateError
from holdfast.store.sqlite.rows import shown_state
from holdfast.store.sqlite.times import from_micros, to_micros
from holdfast.store.sqlite.verbs import SqliteVerbs
from holdfast.store.verb import Access, Bulk, Command, Query, Steps, verb


class _Found(NamedTuple):
    seq: int
    state: State


class ClientVerbs(SqliteVerbs):
    """The writes of clients."""

    @verb(Access.WRITE, wakes=True)
    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[None]:
        """Accept jobs. A job whose id is known already is left as it is."""
        now = self._clock.now()
        created_at = to_micros(now)
        rows: list[tuple[object, ...]] = []
        for job in jobs:
            run_at = to_micros(now + job.delay if job.run_at is None else job.run_at)
            state = State.READY.value if run_at <= created_at else State.SCHEDULED.value
            what = (job.id, job.task, job.version, job.max_attempts, created_at, job.payload)
            rows.append((state, job.queue, job.priority, run_at, *what))
        yield Bulk(self._sql["enqueue"], rows)

    @verb(Access.WRITE)
    def cancel(self, job_id: str) -> Steps[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final."""
        job = yield from self._find(job_id)
        if job.state in FINAL:
            return Cancellation.TOO_LATE
        if job.state in CLAIMED:
            yield Command(self._sql["ask_to_cancel"], (job.seq,))
            return Cancellation.REQUESTED
        yield Command(self._sql["cancel_waiting"], (job.seq, Reason.REQUESTED.value, self._now()))
        return Cancellation.CANCELLED

    @verb(Access.WRITE, wakes=True)
    def requeue(self, job_id: str) -> Steps[None]:
        """Make a dead job ready with attempt and crashes 0, or a scheduled one due now. The fence stays."""
        job = yield from self._find(job_id)
        if job.state in MOVES[Move.REQUEUE].sources:
            yield Command(self._sql["revive"], (job.seq, self._now()))
        elif job.state is State.SCHEDULED:
            yield Command(self._sql["make_due"], (job.seq, self._now()))
        else:
            raise JobStateError(
                f"job {job_id} is {job.state}: only a dead job can be requeued, and a scheduled one be made due now"
            )

    @verb(Access.WRITE)
    def discard(self, job_id: str) -> Steps[None]:
        """End a dead job as cancelled(discarded)."""
        job = yield from self._find(job_id)
        if job.state not in MOVES[Move.DISCARD].sources:
            raise JobStateError(f"job {job_id} is {job.state}: only a dead job can be discarded; cancel any other")
        yield Command(self._sql["cancel_waiting"], (job.seq, Reason.DISCARDED.value, self._now()))

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        yield Command(self._sql["pause"], (queue, self._now()))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        """Undo `pause`."""
        yield Command(self._sql["resume"], (queue,))

    def _find(self, job_id: str) -> Steps[_Found]:
        rows = yield Query(self._sql["job_state"], (job_id,))
        if not rows:
            raise JobNotFoundError(f"there is no job {job_id}: check the id and the store's URL")
        [(seq, state, run_at)] = rows
        return _Found(seq, shown_state(state, from_micros(run_at), self._clock.now()))
