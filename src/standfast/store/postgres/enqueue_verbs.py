"""How jobs are accepted.

Plain jobs, alike and due now, are the hot path: one short statement, one round trip. Others take a longer one,
still for all of them at once. Where a level is not known to be there, another statement goes along. Where keys are
among them, these are locked first, in their order; then each job is looked at, and those that are accepted are
stored together as far as none of them has to make way for a later one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter

from standfast.core.job import NewJob, OnConflict
from standfast.store.postgres.keys import Key, holders_of, lock_holders, lock_keys, set_apart
from standfast.store.postgres.levels import Level
from standfast.store.postgres.reception import Reception
from standfast.store.postgres.remembering import RememberingVerbs
from standfast.store.times import span_to_micros, to_micros_or_none
from standfast.store.verb import Command, Last, Query, Steps, Together, Verb
from standfast.store.waking import enqueuing, known_before

_IS_PLAIN = attrgetter("is_plain")
_COMMON = ("task", "version", "queue", "priority", "max_attempts")
_ALIKE = attrgetter(*_COMMON)
_ALIKE_IN_TIME = attrgetter(*_COMMON, "run_at", "delay")
_LEVEL = attrgetter("queue", "priority")


class EnqueueVerbs(RememberingVerbs):
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        """Accept jobs. A job whose id is known already is left as it is, whatever its key."""
        return enqueuing(jobs, partial(self._enqueue, jobs, is_first=True))

    def _enqueue(
        self, jobs: Sequence[NewJob], *, is_first: bool = False, is_last: bool = True
    ) -> Steps[Mapping[str, str]]:
        """Accept jobs; that nothing else comes before in this transaction, or after, say `is_first`, `is_last`."""
        if not jobs:
            return {}
        if any(job.key is not None for job in jobs):
            if is_first:
                yield from set_apart(self._sql, replaced_by(jobs))
            return (yield from self._receive(jobs))
        now = self._given_now()
        is_due = jobs[0].run_at is None and not jobs[0].delay
        is_plain = is_due and all(map(_IS_PLAIN, jobs)) and len(set(map(_ALIKE_IN_TIME, jobs))) == 1
        statement = self._plain(jobs, now) if is_plain else self._with_more(jobs, now)
        doubtful = self._levels.doubtful(map(_LEVEL, jobs[:1] if is_plain else jobs))
        if doubtful:
            together = Together([statement, self._note(doubtful)])
            accepted, there = yield Last(together) if is_last else together
            self._levels.learn(there)
        else:
            accepted = yield Last(statement) if is_last else statement
        return {} if accepted else known_before(jobs)

    def _plain(self, jobs: Sequence[NewJob], now: int | None) -> Command:
        first = jobs[0]
        if len(jobs) == 1:
            return Command(self._sql["enqueue_one"], (now, first.id, first.payload, *_ALIKE(first)))
        ids, payloads = [job.id for job in jobs], [job.payload for job in jobs]
        return Command(self._sql["enqueue"], (now, ids, payloads, *_ALIKE(first)))

    def _with_more(self, jobs: Sequence[NewJob], now: int | None, after: str | None = None) -> Command:
        columns = map(list, zip(*map(_full_row, jobs), strict=True))
        return Command(self._sql["enqueue_with_more"], (now, after, *columns))

    def _note(self, levels: Sequence[Level]) -> Query:
        """Return what sees to it that levels are there; only what is there for good may be remembered."""
        queues, priorities = [queue for queue, _ in levels], [priority for _, priority in levels]
        return Query(self._sql["note_levels"], (queues, priorities))

    def _receive(self, jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
        """Accept jobs with keys; return those that were not stored, each with the job that has its key."""
        keyed = [job for job in jobs if job.key is not None]
        keys = keys_of(keyed)
        now = yield from lock_keys(self._sql, keys, self._given_now())
        replaced = replaced_by(keyed)
        ids = [job.id for job in jobs]
        if len(replaced) > 1:
            yield from lock_holders(self._sql, replaced, ids)
        rows = yield Query(self._sql["known_jobs"], (ids,))
        holders = yield from holders_of(self._sql, keys, now)
        reception = Reception(self._sql, self._keep, now, holders, {id_ for (id_,) in rows})
        for job in jobs:
            yield from reception.receive(job)
        yield from reception.close()
        return reception.taken or (known_before(jobs) if rows else {})

    def _keep(self, jobs: Sequence[NewJob], now: int, after: str | None) -> Steps[None]:
        doubtful = self._levels.doubtful(map(_LEVEL, jobs))
        statement = self._with_more(jobs, now, after)
        if doubtful:
            _, there = yield Together([statement, self._note(doubtful)])
            self._levels.learn(there)
        else:
            yield statement


def keys_of(jobs: Iterable[NewJob]) -> list[Key]:
    """Return the keys of jobs, each once."""
    return list(dict.fromkeys((job.task, job.key) for job in jobs if job.key is not None))


def replaced_by(jobs: Iterable[NewJob]) -> list[Key]:
    """Return the keys that jobs take from those that have them, each once."""
    return keys_of(job for job in jobs if job.on_conflict is OnConflict.REPLACE)


def _full_row(job: NewJob) -> tuple[object, ...]:
    start_within = on_late = None
    if job.start_within is not None:
        start_within, on_late = span_to_micros(job.start_within), job.on_late.value
    return (
        job.id,
        job.task,
        job.version,
        job.queue,
        job.priority,
        job.max_attempts,
        job.payload,
        to_micros_or_none(job.run_at),
        span_to_micros(job.delay),
        job.key,
        span_to_micros(job.keep_key),
        start_within,
        on_late,
        json.dumps(job.tags) if job.tags else None,
        json.dumps(dict(job.metadata)) if job.metadata else None,
    )
