"""Which page of jobs a filter means: along which walk, with what parameters, and where a look at some jobs ends."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, NO_TASK, Attempt, Glance, Job
from standfast.model.states import WAITING, Move, State
from standfast.stores.rows import from_micros, from_micros_or_none, to_micros
from standfast.stores.sqlite.statements import SqliteVerbs, to_glance, to_job, to_json, to_worker
from standfast.stores.statements import Row, to_attempt
from standfast.stores.values import (
    UNKNOWN_LOOKED_AT,
    JobFilter,
    JobPage,
    Queue,
    QueueAge,
    QueueAges,
    Situation,
    UnknownAge,
    Worker,
    page_of,
    within,
)
from standfast.stores.verb import Access, Query, Steps, verb

MOST_SORTED = 2000
"""If no more jobs wait, they are sorted by id; else every job is walked, and some of those soon met wait."""

_COMPLETED = frozenset({State.COMPLETED})


def walk_of(which: JobFilter, *, many_wait: bool) -> str:
    """Return the statement that has the fewest jobs to pass over: a key's, a tag's, those in states, or all."""
    if which.key is not None:
        return "keyed_jobs"
    if which.tags:
        return "tagged_jobs"
    states = set(which.possible_states)
    return "jobs" if states & _COMPLETED or (many_wait and states & WAITING) else "jobs_in_states"


def parameters_of(which: JobFilter, now: int) -> tuple[object, ...]:
    """Return the parameters of such a statement."""
    metadata = json.dumps(dict(which.metadata)) if which.metadata else None
    place = (_states(which), which.queue, which.task, which.before, which.after, now, which.limit)
    return (*place, which.key, to_json(which.tags or None), metadata, which.error or None, which.worker)


def end_parameters_of(which: JobFilter, walk: str, span: int) -> tuple[object, ...]:
    """Return the parameters of the statement that finds where a look at some jobs of a walk ends."""
    more: dict[str, tuple[object, ...]] = {
        "keyed_jobs": (which.key,),
        "tagged_jobs": which.tags[:1],
        "jobs_in_states": (_states(which),),
    }
    return (which.before, which.after, span, *more.get(walk, ()))


def _states(which: JobFilter) -> str | None:
    states = which.possible_states
    return None if len(states) == len(State) else to_json(states)


# What people and programs look at. Nothing here writes.


class ViewVerbs(SqliteVerbs):
    """The reads."""

    @verb(Access.READ)
    def get(self, job_id: str) -> Steps[Job | None]:
        return (yield from self._get(job_id))

    @verb(Access.READ)
    def list_jobs(self, which: JobFilter, span: int | None = None) -> Steps[JobPage]:
        walk = yield from self._walk(which)
        end: list[str] = []
        if span is not None and (walk == "jobs" or which.passes_over):
            rows = yield Query(self._sql[f"{walk}_end"], end_parameters_of(which, walk, span))
            end = [job_id for (job_id,) in rows]
        found = yield from self._page(walk, within(which, end))
        return page_of(which, found, end)

    @verb(Access.READ)
    def glance(self, job_ids: Sequence[str]) -> Steps[Mapping[str, Glance]]:
        now = self._clock.now()
        rows = yield Query(self._sql["glance"], (to_json(job_ids),))
        return {job_id: to_glance(row, now) for job_id, *row in rows}

    @verb(Access.READ)
    def history(self, job_id: str) -> Steps[tuple[Attempt, ...]]:
        rows = yield Query(self._sql["attempts"], (job_id, HISTORY_FIRST, HISTORY_LAST))
        attempts = [to_attempt(row) for row in rows]
        last = yield Query(self._sql["last_claim"], (job_id,))
        recorded = {attempt.fence for attempt in attempts}
        attempts += [_last_attempt(row) for row in last if row[0] not in recorded]
        return tuple(attempts)

    @verb(Access.READ)
    def queues(self) -> Steps[tuple[Queue, ...]]:
        paused_at = dict((yield Query(self._sql["paused_queues"])))
        states: dict[str, dict[State, int]] = {name: {} for name in paused_at}
        for name, counts in (yield from self._counts()).items():
            states[name] = {state: number for state, number in counts.items() if number > 0}
        return tuple(
            Queue(name, from_micros_or_none(paused_at.get(name)), states[name])
            for name in sorted(states)
            if states[name] or name in paused_at
        )

    @verb(Access.READ)
    def workers(self) -> Steps[tuple[Worker, ...]]:
        return (yield from self._workers())

    @verb(Access.READ)
    def queue_ages(self) -> Steps[QueueAges]:
        now = self._clock.now()
        paused_at = dict((yield Query(self._sql["paused_queues"])))
        rows = yield Query(self._sql["queue_ages"], (to_micros(now),))
        unknown = yield Query(self._sql["unknown_ages"], (to_micros(now), UNKNOWN_LOOKED_AT))
        return QueueAges(
            now,
            tuple(
                QueueAge(name, from_micros(at), from_micros_or_none(paused_at.get(name)))
                for name, at in rows
                if isinstance(name, str)
            ),
            tuple(
                sorted(
                    UnknownAge(name, task, version, from_micros(at))
                    for name, task, version, at in unknown
                    if isinstance(name, str) and isinstance(task, str) and isinstance(at, int)
                )
            ),
        )

    @verb(Access.READ)
    def situation(self, job_id: str) -> Steps[Situation | None]:
        now = self._clock.now()
        job = yield from self._get(job_id)
        if job is None:
            return None
        paused = yield Query(self._sql["paused_at"], (job.queue,))
        workers = yield from self._workers()
        ahead = yield from self._ahead(job_id, to_micros(now))
        return Situation(job, now, from_micros(paused[0][0]) if paused else None, workers, ahead)

    @verb(Access.READ)
    def unsettled(self, queues: tuple[str, ...] | None) -> Steps[int]:
        [(count,)] = yield Query(self._sql["unsettled"], (to_json(queues), self._now()))
        return int(count)

    def _get(self, job_id: str) -> Steps[Job | None]:
        rows = yield Query(self._sql["job"], (job_id,))
        return to_job(rows[0], self._clock.now()) if rows else None

    def _walk(self, which: JobFilter) -> Steps[str]:
        [(waiting,)] = yield Query(self._sql["waiting_up_to"], (MOST_SORTED + 1,))
        return walk_of(which, many_wait=waiting > MOST_SORTED)

    def _page(self, walk: str, which: JobFilter) -> Steps[tuple[Job, ...]]:
        now = self._clock.now()
        rows = yield Query(self._sql[walk], parameters_of(which, to_micros(now)))
        return tuple(to_job(row, now) for row in rows)

    def _counts(self) -> Steps[dict[str, Counter[State]]]:
        """Return how many jobs of each queue are in each state."""
        counts: defaultdict[str, Counter[State]] = defaultdict(Counter)
        for name, state, number in (yield Query(self._sql["queue_states"], (self._now(),))):
            queue = name if isinstance(name, str) else NO_TASK
            if state is None:
                counts[queue][State.COMPLETED] += number
            else:
                counts[queue][State(state)] += number
                counts[queue][State.COMPLETED] -= number
        return counts

    def _workers(self) -> Steps[tuple[Worker, ...]]:
        rows = yield Query(self._sql["workers"])
        return tuple(to_worker(row, self._boot(), self._boot_id) for row in rows)

    def _ahead(self, job_id: str, now: int) -> Steps[int]:
        places = yield Query(self._sql["place"], (job_id,))
        if not places:
            return 0
        [(seq, queue, priority, run_at)] = places
        [(ahead,)] = yield Query(self._sql["ahead"], (queue, priority, run_at, seq, now))
        return int(ahead)


def _last_attempt(row: Row) -> Attempt:
    fence, worker, started_at, finished_at, state = row
    how = Move.COMPLETE.value if state == State.COMPLETED else None
    times = (from_micros_or_none(started_at), from_micros_or_none(finished_at))
    return Attempt(fence, worker, *times, how, None, None)
