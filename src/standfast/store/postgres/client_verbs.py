"""What clients ask for about jobs that are there, from cancel to discard; and about queues: pause."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from standfast.core.job import Cancellation, JobAction, NewJob
from standfast.core.memo import is_suspended
from standfast.core.states import CLAIMED, FINAL, MOVES, Move, Reason, State
from standfast.errors import StoreUnavailableError
from standfast.store.postgres.ending import columns
from standfast.store.postgres.enqueue_verbs import EnqueueVerbs
from standfast.store.postgres.keys import give_key, holder_of, holders_of, lock_keys, mark_replaced
from standfast.store.postgres.verbs import is_id
from standfast.store.postgres.whereabouts import Whereabouts, whereabouts, withdraw
from standfast.store.refusals import key_taken, no_such_job, not_discarded, not_requeued, not_rescheduled
from standfast.store.sql_rows import MANY
from standfast.store.times import to_micros
from standfast.store.verb import Access, Command, Last, Query, Steps, verb

T = TypeVar("T")

_LOOKS = 10
"""How often a job is looked up that moves while someone acts upon it. Each time another was quicker."""


class ClientVerbs(EnqueueVerbs):
    """The writes of clients. Where a job moves between the look and the act, they look again."""

    @verb(Access.WRITE, tells=True, once=True)
    def cancel(self, job_id: str) -> Steps[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final."""
        return (yield from self._decide(job_id, self._cancel))

    @verb(Access.WRITE, wakes=True, once=True)
    def requeue(self, job_id: str) -> Steps[None]:
        """Make a dead job ready with attempt and crashes 0, or a scheduled one due now. The fence stays."""
        yield from self._decide(job_id, self._requeue)

    @verb(Access.WRITE, wakes=True, once=True)
    def reschedule(self, job_id: str, run_at: datetime) -> Steps[None]:
        """Let a scheduled or ready job be due at another time."""
        yield from self._decide(job_id, partial(self._reschedule, to_micros(run_at)))

    @verb(Access.WRITE, tells=True, once=True)
    def discard(self, job_id: str) -> Steps[None]:
        """End a dead job as cancelled(discarded)."""
        yield from self._decide(job_id, self._discard)

    @verb(Access.WRITE, wakes=True, tells=True, once=True)
    def supersede(self, job_id: str, job: NewJob) -> Steps[None]:
        """Discard a dead job and accept another in its place."""
        yield from self._decide(job_id, partial(self._supersede, job))

    @verb(Access.WRITE, wakes=True, tells=True, once=True)
    def change_jobs(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
    ) -> Steps[frozenset[str]]:
        """Do to many jobs what `requeue`, `cancel`, `discard` or `reschedule` does to one."""
        jobs, now = [job_id for job_id in job_ids if is_id(job_id)], self._given_now()
        if action is JobAction.RETRY:
            yield from self._take_keys_again(jobs)
        changed: set[str] = set()
        for name in MANY[action]:
            what = (now, jobs) if run_at is None else (now, jobs, to_micros(run_at))
            changed.update(job_id for (job_id,) in (yield Query(self._sql[name], what)))
        return frozenset(changed)

    def _take_keys_again(self, jobs: Sequence[str]) -> Steps[None]:
        """Give the keys that are free to those of the dead jobs that had them."""
        wanted = {(task, key): job_id for job_id, task, key in (yield Query(self._sql["dead_with_keys"], (jobs,)))}
        if wanted:
            now = yield from lock_keys(self._sql, wanted, self._given_now())
            taken = yield from holders_of(self._sql, list(wanted), now)
            free = [(*key, job_id) for key, job_id in wanted.items() if key not in taken]
            if free:
                yield Command(self._sql["give_keys"], columns(free))

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        yield Last(Command(self._sql["pause"], (self._given_now(), queue)))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        """Undo `pause`."""
        yield Last(Command(self._sql["resume"], (queue,)))

    def _decide(self, job_id: str, act: Callable[[Whereabouts], Steps[T | None]]) -> Steps[T]:
        """Look a job up and act upon it, until the act finds it where it was."""
        for _ in range(_LOOKS):
            job = (yield from whereabouts(self._sql, job_id, self._given_now())) if is_id(job_id) else None
            if job is None:
                raise no_such_job(job_id)
            done = yield from act(job)
            if done is not None:
                return done
        raise StoreUnavailableError(f"job {job_id} moved at each of {_LOOKS} looks, nothing was changed: try again")

    def _cancel(self, job: Whereabouts) -> Steps[Cancellation | None]:
        if job.state in FINAL:
            return Cancellation.TOO_LATE
        if job.state in CLAIMED:
            asked = yield Command(self._sql["ask_to_cancel"], (job.id,))
            return Cancellation.REQUESTED if asked else None
        if not (yield from self._give_key_back(job)):
            return None
        withdrawn = yield from withdraw(self._sql, job.id, Reason.REQUESTED, self._given_now())
        return Cancellation.CANCELLED if withdrawn else None

    def _give_key_back(self, job: Whereabouts) -> Steps[bool]:
        """Give the key of a job that waits for the end of a claimed one back to that; False where that has ended.

        The claim is locked before the job that waits for it, as those do who end the claim.
        """
        if job.key is None or job.after is None:
            return True
        yield from lock_keys(self._sql, [(job.task, job.key)], self._given_now())
        holder = yield from holder_of(self._sql, job.task, job.key, self._given_now())
        if holder is None or holder.id != job.id or not (yield from mark_replaced(self._sql, job.after, False)):
            return False
        yield from give_key(self._sql, job.task, job.key, job.after)
        return True

    def _requeue(self, job: Whereabouts) -> Steps[bool | None]:
        if job.state in MOVES[Move.REQUEUE].sources:
            if job.key is not None:
                yield from self._take_key_again(job, job.key)
            done = yield Command(self._sql["revive"], (self._given_now(), job.id))
        elif job.state is State.SCHEDULED:
            done = yield Command(self._sql["make_due"], (self._given_now(), job.id))
        else:
            raise not_requeued(job.id, job.state)
        return True if done else None

    def _reschedule(self, run_at: int, job: Whereabouts) -> Steps[bool | None]:
        if job.state not in {State.READY, State.SCHEDULED} or is_suspended(job.reason):
            raise not_rescheduled(job.id, job.state)
        done = yield Query(self._sql["reschedule"], (job.id, run_at, job.reason))
        return True if done else None

    def _take_key_again(self, job: Whereabouts, key: str) -> Steps[None]:
        now = yield from lock_keys(self._sql, [(job.task, key)], self._given_now())
        holder = yield from holder_of(self._sql, job.task, key, now)
        if holder is not None and holder.id != job.id:
            raise key_taken(holder.task, holder.key, holder.id, holder.state, requeued=job.id)
        yield from give_key(self._sql, job.task, key, job.id)

    def _supersede(self, new: NewJob, job: Whereabouts) -> Steps[bool | None]:
        """Accept the new one first: who requeues the other also takes its key before it changes the job."""
        if job.state in MOVES[Move.DISCARD].sources:
            yield from self._enqueue((new,), is_last=False)
        return (yield from self._discard(job))

    def _discard(self, job: Whereabouts) -> Steps[bool | None]:
        if job.state not in MOVES[Move.DISCARD].sources:
            raise not_discarded(job.id, job.state)
        done = yield Command(self._sql["discard"], (self._given_now(), job.id))
        return True if done else None
