"""How jobs are accepted.

Plain jobs are the hot path: one bulk insert of few columns. Those with more to say have a longer row. Those with a
key are looked at one by one; the write lock sees to it that of a crowd with one key one is the first.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from standfast.core.job import NewJob
from standfast.core.states import CLAIMED, Reason, State
from standfast.store.refusals import makes_way
from standfast.store.sqlite.keys import Holder, holder_of
from standfast.store.sqlite.verbs import SqliteVerbs, to_json
from standfast.store.times import span_to_micros, to_micros
from standfast.store.verb import Bulk, Command, Query, Steps, Verb
from standfast.store.waking import enqueuing, known_before

_IS_PLAIN = attrgetter("is_plain")
_QUEUE = attrgetter("queue")


class EnqueueVerbs(SqliteVerbs):
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key."""
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
