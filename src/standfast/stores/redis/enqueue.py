"""How jobs are accepted: in columns, up to a thousand or so at once, as that is the least to pack and to read."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from standfast.model.job import Cancellation, JobAction, NewJob
from standfast.model.memos import MEMOS_LIMIT, signal_memo, signal_reason
from standfast.model.states import State
from standfast.stores.redis.rows import is_short, pack, pairs, write_job, write_memo, write_short_job
from standfast.stores.refusals import (
    key_taken,
    no_such_job,
    not_discarded,
    not_requeued,
    not_rescheduled,
    too_many_signals,
)
from standfast.stores.rows import span_to_micros, to_micros
from standfast.stores.verb import Access, Script, Steps, Verb, enqueuing, verb


class EnqueueVerbs:
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key."""
        if len(jobs) == 1 and is_short(jobs[0]):
            return Verb("enqueue", Access.WRITE, _enqueue_one(jobs[0]), wakes=True)
        return enqueuing(jobs, partial(_enqueue, jobs))


def _enqueue(jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
    if not jobs:
        return {}
    columns, texts = in_columns(jobs)
    met, holder = yield Script("enqueue", (pack(columns), texts))
    if holder is not None:
        raise key_taken(*(word.decode() for word in holder))
    return {job_id.decode(): other.decode() for job_id, other in pairs(met)}


def _enqueue_one(job: NewJob) -> Steps[Mapping[str, str]]:
    """Accept one plain job: most calls are for one."""
    known = yield Script("enqueue_one", (job.id, write_short_job(job), job.queue, f"0:{job.priority}"))
    return {job.id: job.id} if known else {}


def in_columns(jobs: Sequence[NewJob]) -> tuple[Sequence[Any], bytes]:
    """Return jobs as `accepting.lua` reads them, no two with one id, and what is stored of them."""
    jobs = _different(jobs)
    # What is_short says, without a call of it for each of many.
    special = [
        (number, job)
        for number, job in enumerate(jobs, 1)
        if job.run_at is not None or job.delay or not job.is_plain
    ]
    texts = [write_job(job) for job in jobs] if special else [write_short_job(job) for job in jobs]
    return _columns(jobs, special, texts), b"".join(texts)


def _different(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return the jobs without those whose id one before them has."""
    if len({job.id for job in jobs}) == len(jobs):
        return jobs
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    return list(first.values())


def _columns(
    jobs: Sequence[NewJob], special: Sequence[tuple[int, NewJob]], texts: Sequence[bytes]
) -> tuple[Any, ...]:
    places: dict[tuple[str, int], int] = {}
    place_of = [places.setdefault((job.queue, job.priority), len(places) + 1) for job in jobs]
    return (
        [job.id for job in jobs],
        [len(text) for text in texts],
        list(places),
        place_of if len(places) > 1 else None,
        {number: to_micros(job.run_at) for number, job in special if job.run_at is not None} or None,
        {number: span_to_micros(job.delay) for number, job in special if job.delay} or None,
        {number: _more(job) for number, job in special if job.key is not None or job.keep_key or job.tags} or None,
    )


def _more(job: NewJob) -> tuple[Any, ...]:
    flagged = job.key is not None or bool(job.keep_key)
    return (job.task, job.key, job.on_conflict.value, job.tags, flagged)


# What clients ask for about jobs that are there, from cancel and signal to discard; and about queues: pause.


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
