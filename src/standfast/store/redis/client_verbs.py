"""What clients ask for about jobs that are there, from cancel and signal to discard; and about queues: pause."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from standfast.core.job import Cancellation, JobAction, NewJob
from standfast.core.memo import MEMOS_LIMIT, signal_memo, signal_reason
from standfast.core.states import State
from standfast.store.redis.enqueue_verbs import in_columns
from standfast.store.redis.memo_texts import write_memo
from standfast.store.redis.packing import pack
from standfast.store.refusals import (
    key_taken,
    no_such_job,
    not_discarded,
    not_requeued,
    not_rescheduled,
    too_many_signals,
)
from standfast.store.times import to_micros
from standfast.store.verb import Access, Script, Steps, verb


class ClientVerbs:
    """The writes of clients."""

    @verb(Access.WRITE, tells=True, once=True)
    def cancel(self, job_id: str) -> Steps[Cancellation]:
        """Cancel a waiting job now; ask for it where it is claimed; too late where it is final."""
        outcome = yield from _ask("cancel", job_id)
        return Cancellation(outcome.decode())

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        """Send a signal to a job that is not final; one that waits for it becomes ready."""
        memo = (signal_memo(name, token), write_memo(body))
        sent = yield from _ask("signal", job_id, signal_reason(name), *memo, str(MEMOS_LIMIT))
        if sent < 0:
            raise too_many_signals(job_id)
        return bool(sent)

    @verb(Access.WRITE, wakes=True, once=True)
    def requeue(self, job_id: str) -> Steps[None]:
        """Make a dead job ready with attempt and crashes 0, or a scheduled one due now. The fence stays."""
        state, *holder = yield from _ask("requeue", job_id)
        if holder:
            raise key_taken(*(word.decode() for word in holder), requeued=job_id)
        was = state.decode()
        if was not in {State.DEAD, State.SCHEDULED}:
            raise not_requeued(job_id, was)

    @verb(Access.WRITE, wakes=True, once=True)
    def reschedule(self, job_id: str, run_at: datetime) -> Steps[None]:
        """Let a scheduled or ready job be due at another time."""
        refused = yield from _ask("reschedule", job_id, str(to_micros(run_at)))
        if refused:
            raise not_rescheduled(job_id, refused.decode())

    @verb(Access.WRITE, tells=True, once=True)
    def discard(self, job_id: str) -> Steps[None]:
        """End a dead job as cancelled(discarded)."""
        state = yield from _ask("discard", job_id)
        if state.decode() != State.DEAD:
            raise not_discarded(job_id, state.decode())

    @verb(Access.WRITE, wakes=True, tells=True, once=True)
    def supersede(self, job_id: str, job: NewJob) -> Steps[None]:
        """Discard a dead job and accept another in its place."""
        columns, text = in_columns((job,))
        state, *holder = yield from _ask("supersede", job_id, pack(columns), text)
        if holder:
            raise key_taken(*(word.decode() for word in holder))
        if state.decode() != State.DEAD:
            raise not_discarded(job_id, state.decode())

    @verb(Access.WRITE, wakes=True, tells=True, once=True)
    def change_jobs(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
    ) -> Steps[frozenset[str]]:
        """Do to many jobs what `requeue`, `cancel`, `discard` or `reschedule` does to one."""
        at = "" if run_at is None else str(to_micros(run_at))
        changed = yield Script("change_jobs", (action.value, at, pack(list(job_ids))))
        return frozenset(job_id.decode() for job_id in changed)

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        """Let nothing of the queue be claimed or, if claimed but not started, start."""
        yield Script("pause", (queue,))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        """Undo `pause`."""
        yield Script("resume", (queue,))


def _ask(name: str, job_id: str, *more: str | bytes) -> Steps[Any]:
    reply = yield Script(name, (job_id, *more))
    if reply is None:
        raise no_such_job(job_id)
    return reply
