"""What clients do to jobs in SQLite: enqueue, change, pause.

Who has a key: one row says which job was last accepted with it, and that job's own whether it still has it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from standfast.model.job import JobAction, NewJob
from standfast.model.states import CLAIMED, FINAL, Reason, State
from standfast.stores.refusals import is_refused, makes_way
from standfast.stores.rows import from_micros, span_to_micros, to_micros
from standfast.stores.sqlite.statements import SqliteVerbs, state_of, to_json
from standfast.stores.statements import MANY_CHANGED
from standfast.stores.values import JobOutcome, KeyHolder
from standfast.stores.verb import (
    Access,
    Bulk,
    Command,
    Query,
    Steps,
    Verb,
    changing_jobs,
    enqueuing,
    known_before,
    verb,
)


@dataclass(frozen=True, slots=True)
class Holder:
    """The job that has a key of its task. `after` is the claimed job that it waits for as blocked(replacing)."""

    task: str
    key: str
    seq: int
    id: str
    state: State
    after: str | None


def holder_of(sql: Mapping[str, str], task: str, key: str | None, now: int) -> Steps[Holder | None]:
    """Return the job that has the key now; None where it is free, or no key at all."""
    rows = [] if key is None else (yield Query(sql["key_holder"], (task, key)))
    if key is None or not rows:
        return None
    [(seq, job_id, stored, run_at, finished_at, keep_key, after)] = rows
    state = state_of(stored, run_at, from_micros(now))
    is_kept = state is State.COMPLETED and now < finished_at + keep_key
    return Holder(task, key, seq, job_id, state, after) if is_kept or state not in FINAL else None


# How jobs are accepted.
#
# Plain jobs are the hot path: one bulk insert of few columns. Those with more to say have a longer row. Those with a
# key are looked at one by one; the write lock sees to it that of a crowd with one key one is the first.

_IS_PLAIN = attrgetter("is_plain")
_QUEUE = attrgetter("queue")


class EnqueueVerbs(SqliteVerbs):
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        return enqueuing(jobs, partial(self._enqueue, jobs))

    def _enqueue(self, jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
        now = self._now()
        taken: dict[str, str] = {}
        accepted = 0
        for is_plain, alike in groupby(jobs, _IS_PLAIN):
            if is_plain:
                accepted += yield Bulk(self._sql["enqueue"], [_plain_row(job, now) for job in alike])
                continue
            for has_key, others in groupby(alike, _has_key):
                if has_key:
                    accepted += yield from self._accept_keyed(others, now, taken)
                else:
                    accepted += yield from self._accept(list(others), now)
        if accepted == len(jobs):
            for queue, number in Counter(map(_QUEUE, jobs)).items():
                yield Command(self._sql["grow"], (queue, number))
        elif accepted:
            yield Command(self._sql["grow_by_the_last"], (accepted,))
        return taken if taken or accepted else known_before(jobs)

    def _accept(self, jobs: Sequence[NewJob], now: int, after: str | None = None) -> Steps[int]:
        """Accept jobs without looking at keys; return how many were not known before."""
        accepted: int = yield Bulk(self._sql["enqueue_with_more"], [_full_row(job, now, after) for job in jobs])
        tagged = [(job.id,) for job in jobs if job.tags]
        if tagged:
            yield Bulk(self._sql["index_tags"], tagged)
        return accepted

    def _accept_keyed(self, jobs: Iterator[NewJob], now: int, taken: dict[str, str]) -> Steps[int]:
        """Accept jobs with keys, noting those that were not stored, each with the job that has its key."""
        accepted = 0
        for job in jobs:
            [(known,)] = yield Query(self._sql["is_known"], (job.id,))
            if known:
                continue
            holder = yield from holder_of(self._sql, job.task, job.key, now)
            if holder is not None and not makes_way(job, holder.id, holder.state):
                taken[job.id] = holder.id
                continue
            after = None if holder is None else (yield from self._make_way(holder, now))
            accepted += yield from self._accept((job,), now, after)
            yield Command(self._sql["give_key"], (job.task, job.key, job.id))
        return accepted

    def _make_way(self, holder: Holder, now: int) -> Steps[str | None]:
        """Make room for a replacement; return the id of the claimed job that it has to wait for, if any."""
        if holder.state in CLAIMED:
            yield Command(self._sql["mark_replaced"], (holder.id, 1))
            return holder.id
        yield Command(self._sql["cancel_waiting"], (holder.seq, Reason.REPLACED.value, now))
        return holder.after


def _has_key(job: NewJob) -> bool:
    return job.key is not None


def _run_at(job: NewJob, now: int) -> int:
    if job.run_at is not None:
        return to_micros(job.run_at)
    return now + span_to_micros(job.delay) if job.delay else now


def _plain_row(job: NewJob, now: int) -> tuple[object, ...]:
    run_at = _run_at(job, now)
    state = State.READY.value if run_at <= now else State.SCHEDULED.value
    place = (state, job.queue, job.priority, run_at)
    return (*place, job.id, job.task, job.version, job.max_attempts, now, job.payload)


def _full_row(job: NewJob, now: int, after: str | None) -> tuple[object, ...]:
    state, *rest = _plain_row(job, now)
    start_by = on_late = reason = None
    if job.start_within is not None:
        start_by, on_late = _run_at(job, now) + span_to_micros(job.start_within), job.on_late.value
    if after is not None:
        state, reason = State.BLOCKED.value, Reason.REPLACING.value
    metadata = json.dumps(dict(job.metadata)) if job.metadata else None
    finding = (to_json(job.tags or None), metadata, job.key, span_to_micros(job.keep_key))
    return (state, *rest, start_by, on_late, *finding, reason, after)


# What clients ask for about jobs that are there, from cancel to discard; and about queues: pause.


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

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        if len(job_ids) == 1:
            return changing_jobs(action, instead, partial(self._change_one, action, job_ids[0], run_at, instead))
        return changing_jobs(action, instead, partial(self._change_many, action, job_ids, run_at))

    def _change_one(
        self, action: JobAction, job_id: str, run_at: datetime | None, instead: NewJob | None
    ) -> Steps[Mapping[str, JobOutcome]]:
        return {job_id: (yield from self._change_job(action, job_id, run_at, instead))}

    def _change_many(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None
    ) -> Steps[Mapping[str, JobOutcome]]:
        """Change many by few statements, but for those whose change moves a key. Where the jobs were is not known."""
        jobs, now = to_json(job_ids), self._now()
        if action is JobAction.RETRY:
            for job_id, task, key in (yield Query(self._sql["dead_with_keys"], (jobs,))):
                if (yield from holder_of(self._sql, task, key, now)) is None:
                    yield Command(self._sql["give_key"], (task, key, job_id))
        changed: set[str] = set()
        for name in MANY_CHANGED[action]:
            what = (jobs, now) if run_at is None else (jobs, now, to_micros(run_at))
            changed.update(job_id for (job_id,) in (yield Query(self._sql[name], what)))
        return dict.fromkeys(changed, JobOutcome(changed=True))

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        yield Command(self._sql["pause"], (queue, self._now()))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        yield Command(self._sql["resume"], (queue,))

    def _change_job(
        self, action: JobAction, job_id: str, run_at: datetime | None = None, instead: NewJob | None = None
    ) -> Steps[JobOutcome]:
        job = yield from self._look_for(job_id)
        if job is None:
            return JobOutcome(changed=False)
        if is_refused(action, job.state, job.reason):
            return JobOutcome(changed=False, state=job.state)
        holder = None
        if action is JobAction.RETRY:
            holder = yield from self._retry(job)
        elif action is JobAction.CANCEL:
            yield from self._cancel(job)
        elif action is JobAction.DISCARD:
            yield Command(self._sql["cancel_waiting"], (job.seq, Reason.DISCARDED.value, self._now()))
            if instead is not None:
                yield from self._enqueue((instead,))
        else:
            assert run_at is not None
            yield Command(self._sql["reschedule"], (job.seq, to_micros(run_at), self._now()))
        return JobOutcome(changed=holder is None, state=job.state, holder=holder)

    def _retry(self, job: _Found) -> Steps[KeyHolder | None]:
        """Make a job due now, unless its key is taken; return who has it."""
        if job.state is not State.DEAD:
            yield Command(self._sql["make_due"], (job.seq, self._now()))
            return None
        holder = yield from holder_of(self._sql, job.task, job.key, self._now())
        if holder is not None:
            return KeyHolder(holder.task, holder.key, holder.id, holder.state)
        if job.key is not None:
            yield Command(self._sql["give_key"], (job.task, job.key, job.id))
        yield Command(self._sql["revive"], (job.seq, self._now()))
        return None

    def _cancel(self, job: _Found) -> Steps[None]:
        if job.state in CLAIMED:
            yield Command(self._sql["ask_to_cancel"], (job.seq,))
            return
        yield Command(self._sql["cancel_waiting"], (job.seq, Reason.REQUESTED.value, self._now()))
        if job.after is not None:
            # While it waited so, the other one was claimed: it has its key back, and may be tried again.
            yield Command(self._sql["mark_replaced"], (job.after, 0))
            yield Command(self._sql["give_key"], (job.task, job.key, job.after))

    def _look_for(self, job_id: str) -> Steps[_Found | None]:
        rows = yield Query(self._sql["job_state"], (job_id,))
        if not rows:
            return None
        [(seq, task, key, state, reason, run_at, after)] = rows
        shown = state_of(state, run_at, self._clock.now())
        return _Found(seq, job_id, task, key, shown, reason, after)
