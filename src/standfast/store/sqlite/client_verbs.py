"""What clients ask for about jobs that are there, from cancel to discard; and about queues: pause."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from standfast.core.job import Cancellation, JobAction, NewJob
from standfast.core.memo import is_suspended
from standfast.core.states import CLAIMED, FINAL, MOVES, Move, Reason, State
from standfast.store.refusals import key_taken, no_such_job, not_discarded, not_requeued, not_rescheduled
from standfast.store.sql_rows import MANY
from standfast.store.sqlite.enqueue_verbs import EnqueueVerbs
from standfast.store.sqlite.keys import holder_of
from standfast.store.sqlite.rows import state_of
from standfast.store.sqlite.verbs import to_json
from standfast.store.times import to_micros
from standfast.store.verb import Access, Command, Query, Steps, verb


class _Found(NamedTuple):
    seq: int
    id: str
    task: str
    key: str | None
    state: State
    reason: str | None
    after: str | None


class ClientVerbs(EnqueueVerbs):
    """The writes of clients."""

    @verb(Access.WRITE, tells=True)
    def cancel(self, job_id: str) -> Steps[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final."""
        job = yield from self._find(job_id)
        return (yield from self._cancel(job))

    @verb(Access.WRITE, wakes=True)
    def requeue(self, job_id: str) -> Steps[None]:
        """Make a dead job ready with attempt and crashes 0, or a scheduled one due now. The fence stays."""
        job = yield from self._find(job_id)
        if job.state in MOVES[Move.REQUEUE].sources:
            yield from self._revive(job)
        elif job.state is State.SCHEDULED:
            yield Command(self._sql["make_due"], (job.seq, self._now()))
        else:
            raise not_requeued(job_id, job.state)

    @verb(Access.WRITE, wakes=True)
    def reschedule(self, job_id: str, run_at: datetime) -> Steps[None]:
        """Let a scheduled or ready job be due at another time."""
        job = yield from self._find(job_id)
        if job.state not in {State.READY, State.SCHEDULED} or is_suspended(job.reason):
            raise not_rescheduled(job_id, job.state)
        yield Command(self._sql["reschedule"], (job.seq, to_micros(run_at), self._now()))

    @verb(Access.WRITE, tells=True)
    def discard(self, job_id: str) -> Steps[None]:
        """End a dead job as cancelled(discarded)."""
        yield from self._discard(job_id)

    @verb(Access.WRITE, wakes=True, tells=True)
    def supersede(self, job_id: str, job: NewJob) -> Steps[None]:
        """Discard a dead job and accept another in its place."""
        yield from self._discard(job_id)
        yield from self._enqueue((job,))

    @verb(Access.WRITE, wakes=True, tells=True)
    def change_jobs(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
    ) -> Steps[frozenset[str]]:
        """Do to many jobs what `requeue`, `cancel`, `discard` or `reschedule` does to one."""
        jobs, now = to_json(job_ids), self._now()
        if action is JobAction.RETRY:
            for job_id, task, key in (yield Query(self._sql["dead_with_keys"], (jobs,))):
                if (yield from holder_of(self._sql, task, key, now)) is None:
                    yield Command(self._sql["give_key"], (task, key, job_id))
        changed: set[str] = set()
        for name in MANY[action]:
            what = (jobs, now) if run_at is None else (jobs, now, to_micros(run_at))
            changed.update(job_id for (job_id,) in (yield Query(self._sql[name], what)))
        return frozenset(changed)

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        yield Command(self._sql["pause"], (queue, self._now()))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        """Undo `pause`."""
        yield Command(self._sql["resume"], (queue,))

    def _discard(self, job_id: str) -> Steps[None]:
        job = yield from self._find(job_id)
        if job.state not in MOVES[Move.DISCARD].sources:
            raise not_discarded(job_id, job.state)
        yield Command(self._sql["cancel_waiting"], (job.seq, Reason.DISCARDED.value, self._now()))

    def _cancel(self, job: _Found) -> Steps[Cancellation]:
        if job.state in FINAL:
            return Cancellation.TOO_LATE
        if job.state in CLAIMED:
            yield Command(self._sql["ask_to_cancel"], (job.seq,))
            return Cancellation.REQUESTED
        yield Command(self._sql["cancel_waiting"], (job.seq, Reason.REQUESTED.value, self._now()))
        if job.after is not None:
            # While it waited so, the other one was claimed: it has its key back, and may be tried again.
            yield Command(self._sql["mark_replaced"], (job.after, 0))
            yield Command(self._sql["give_key"], (job.task, job.key, job.after))
        return Cancellation.CANCELLED

    def _revive(self, job: _Found) -> Steps[None]:
        now = self._now()
        holder = yield from holder_of(self._sql, job.task, job.key, now)
        if holder is not None:
            raise key_taken(holder.task, holder.key, holder.id, holder.state, requeued=job.id)
        if job.key is not None:
            yield Command(self._sql["give_key"], (job.task, job.key, job.id))
        yield Command(self._sql["revive"], (job.seq, now))

    def _find(self, job_id: str) -> Steps[_Found]:
        job = yield from self._look_for(job_id)
        if job is None:
            raise no_such_job(job_id)
        return job

    def _look_for(self, job_id: str) -> Steps[_Found | None]:
        rows = yield Query(self._sql["job_state"], (job_id,))
        if not rows:
            return None
        [(seq, task, key, state, reason, run_at, after)] = rows
        shown = state_of(state, run_at, self._clock.now())
        return _Found(seq, job_id, task, key, shown, reason, after)
