"""How jobs are accepted: in columns, up to a thousand or so at once, as that is the least to pack and to read."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from standfast.model.job import JobAction, NewJob
from standfast.model.memos import MEMOS_LIMIT, signal_memo, signal_reason
from standfast.model.states import State
from standfast.stores.redis.rows import is_short, pack, pairs, write_job, write_memo, write_short_job
from standfast.stores.refusals import key_taken, no_such_job, too_many_signals
from standfast.stores.rows import span_to_micros, to_micros
from standfast.stores.values import JobOutcome, KeyHolder
from standfast.stores.verb import Access, Script, Steps, Verb, changing_jobs, enqueuing, verb


class EnqueueVerbs:
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        if len(jobs) == 1 and is_short(jobs[0]):
            return Verb("enqueue", Access.WRITE, _enqueue_one(jobs[0]), wakes=True)
        return enqueuing(jobs, partial(_enqueue, jobs))


def _enqueue(jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
    if not jobs:
        return {}
    columns, texts = in_columns(jobs)
    met, holder = yield Script("enqueue", (pack(columns), texts))
    if holder is not None:
        raise key_taken(_key_holder(holder))
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

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        memo = (signal_memo(name, token), write_memo(body))
        sent = yield Script("signal", (job_id, signal_reason(name), *memo, str(MEMOS_LIMIT)))
        if sent is None:
            raise no_such_job(job_id)
        if sent < 0:
            raise too_many_signals(job_id)
        return bool(sent)

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        if instead is not None:
            (job_id,) = job_ids
            return changing_jobs(action, instead, partial(self._supersede, job_id, instead))
        return changing_jobs(action, None, partial(self._change_jobs, action, list(dict.fromkeys(job_ids)), run_at))

    def _change_jobs(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None
    ) -> Steps[Mapping[str, JobOutcome]]:
        at = "" if run_at is None else str(to_micros(run_at))
        replies = yield Script("change_jobs", (action.value, at, pack(job_ids)))
        return dict(zip(job_ids, map(_outcome, replies), strict=True))

    def _supersede(self, job_id: str, instead: NewJob) -> Steps[Mapping[str, JobOutcome]]:
        columns, text = in_columns((instead,))
        state, *holder = (yield Script("supersede", (job_id, pack(columns), text))) or (b"",)
        if holder:
            raise key_taken(_key_holder(holder))
        return {job_id: _outcome((state.decode() == State.DEAD, state))}

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        yield Script("pause", (queue,))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        yield Script("resume", (queue,))


def _outcome(reply: Sequence[Any]) -> JobOutcome:
    changed, state, *holder = reply
    was = State(state.decode()) if state else None
    return JobOutcome(bool(changed), was, _key_holder(holder) if holder else None)


def _key_holder(words: Sequence[bytes]) -> KeyHolder:
    task, key, job_id, state = (word.decode() for word in words)
    return KeyHolder(task, key, job_id, State(state))
