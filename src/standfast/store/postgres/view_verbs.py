"""What people and programs look at. Nothing here writes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from standfast.core.job import HISTORY_FIRST, HISTORY_LAST, Attempt, Glance, Job
from standfast.core.memo import SLEEPING, signal_reason
from standfast.core.states import Move, State
from standfast.store.looking import UNKNOWN_LOOKED_AT
from standfast.store.postgres.marks import as_json, note
from standfast.store.postgres.pages import LONGEST_PAGE, end_parameters_of, parameters_of, walk_of
from standfast.store.postgres.remembering import RememberingVerbs
from standfast.store.postgres.rows import to_glance, to_worker
from standfast.store.postgres.verbs import is_id
from standfast.store.protocol import JobFilter, JobPage, Queue, QueueAge, QueueAges, Situation, UnknownAge, Worker
from standfast.store.searching import page_of, within
from standfast.store.sql_rows import Row, to_attempt, to_job
from standfast.store.times import from_micros, from_micros_or_none
from standfast.store.verb import Access, Last, Query, Steps, Together, verb


class ViewVerbs(RememberingVerbs):
    """The reads. Each is one statement, or decides by the last one: so nothing moves while it looks."""

    @verb(Access.READ)
    def get(self, job_id: str) -> Steps[Job | None]:
        """Return the job, or None."""
        if not is_id(job_id):
            return None
        rows = yield from self._look("job", job_id)
        return to_job(rows[0]) if rows else None

    @verb(Access.READ)
    def list_jobs(self, which: JobFilter) -> Steps[tuple[Job, ...]]:
        """Return one page of jobs, newest id first."""
        return (yield from self._list(which))

    @verb(Access.READ)
    def search_jobs(self, which: JobFilter, span: int) -> Steps[JobPage]:
        """Return one page of jobs, newest id first, after a look at no more than some of them."""
        walk, end = walk_of(which), list[str]()
        if which.passes_over and parameters_of(which) is not None:
            rows = yield Query(self._sql[f"{walk}_end"], end_parameters_of(which, walk, span))
            end = [job_id for (job_id,) in rows]
        found = yield from self._list(within(which, end))
        return page_of(which, found, end)

    def _list(self, which: JobFilter) -> Steps[tuple[Job, ...]]:
        found: list[Job] = []
        while len(found) < which.limit:
            limit = min(which.limit - len(found), LONGEST_PAGE)
            rows = yield from self._page(
                replace(which, limit=limit, before=found[-1].id if found else which.before)
            )
            found += map(to_job, rows)
            if len(rows) < limit:
                break
        return tuple(found)

    @verb(Access.READ)
    def glance(self, job_ids: Sequence[str]) -> Steps[Mapping[str, Glance]]:
        """Return the states of jobs; those that do not exist are left out."""
        rows = yield from self._look("glance", [job_id for job_id in job_ids if is_id(job_id)])
        return {job_id: to_glance(row) for job_id, *row in rows}

    @verb(Access.READ)
    def history(self, job_id: str) -> Steps[tuple[Attempt, ...]]:
        """Return every claim of the job by fence, the present one included."""
        if not is_id(job_id):
            return ()
        rows = yield Last(Query(self._sql["history"], (job_id, Move.COMPLETE.value, HISTORY_FIRST, HISTORY_LAST)))
        return tuple(to_attempt(row) for row in rows)

    @verb(Access.READ)
    def queues(self) -> Steps[tuple[Queue, ...]]:
        """Return every queue that holds jobs or is paused, by name."""
        paused_at: dict[str, int] = {}
        states: dict[str, dict[State, int]] = {}
        for name, state, number in (yield from self._look("queue_states", self._marks_json())):
            queue = states.setdefault(name, {})
            if state is None:
                paused_at[name] = number
            else:
                shown = State(state)
                queue[shown] = queue.get(shown, 0) + number
        return tuple(Queue(name, from_micros_or_none(paused_at.get(name)), states[name]) for name in sorted(states))

    @verb(Access.READ)
    def workers(self) -> Steps[tuple[Worker, ...]]:
        """Return the registered workers, oldest first."""
        rows = yield from self._look("workers")
        return tuple(to_worker(row) for row in rows)

    @verb(Access.READ)
    def queue_ages(self) -> Steps[QueueAges]:
        """Return each queue with due jobs that nobody has claimed."""
        noted = self._marks_of_looks.begin()
        look = Query(self._sql["queue_ages"], (self._given_now(), as_json(noted, None)))
        aside = Query(self._sql["unknown_ages"], (self._given_now(), UNKNOWN_LOOKED_AT))
        ((now, xmin, *_), *levels), unknown = yield Last(Together([look, aside]))
        if xmin is not None:
            firsts = [((queue, priority), first) for _, first, queue, priority, *_ in levels]
            taken = [(level, min(int(first), int(xmin))) for level, first in firsts if first is not None]
            note(noted, int(xmin), taken, [level for level, first in firsts if first is None])
            self._marks_of_looks.walked(noted)
        ages: dict[str, QueueAge] = {}
        for _, _, name, _, due_at, paused_at in levels:
            if due_at is not None and (name not in ages or from_micros(due_at) < ages[name].oldest_due_at):
                ages[name] = QueueAge(name, from_micros(due_at), from_micros_or_none(paused_at))
        return QueueAges(
            from_micros(now),
            tuple(ages[name] for name in sorted(ages)),
            tuple(sorted(UnknownAge(name, task, version, from_micros(at)) for name, task, version, at in unknown)),
        )

    @verb(Access.READ)
    def count(self) -> Steps[Mapping[State, int]]:
        """Return how many jobs are in each state, zeros included."""
        counts = dict.fromkeys(State, 0)
        for state, count in (yield from self._look("states", self._marks_json())):
            counts[State(state)] += count
        return counts

    @verb(Access.READ)
    def situation(self, job_id: str) -> Steps[Situation | None]:
        """Return what there is to know about why a job does not run, or None without such a job."""
        rows = (yield from self._look("situation", job_id)) if is_id(job_id) else ()
        if not rows:
            return None
        now, paused_at, workers, ahead, *job = rows[0]
        roster = tuple(to_worker(tuple(row.values())) for row in json.loads(workers or "[]"))
        return Situation(to_job(job), from_micros(now), from_micros_or_none(paused_at), roster, ahead)

    @verb(Access.READ)
    def unsettled(self, queues: tuple[str, ...] | None) -> Steps[int]:
        """Return how many jobs of these queues a drain still waits for."""
        [(count,)] = yield from self._look(
            "unsettled", None if queues is None else list(queues), SLEEPING, signal_reason("")
        )
        return int(count)

    def _marks_json(self) -> str:
        """Return from where on the fresh jobs of each level are to be walked."""
        return as_json(self._marks_of_looks.noted, None)

    def _page(self, which: JobFilter) -> Steps[Sequence[Row]]:
        parameters = parameters_of(which)
        if parameters is None:
            return ()
        given = (self._given_now(), *parameters)
        if State.READY in which.states:
            # Fresh jobs are not kept by id, and to sort many takes its time. But where many wait, some are new.
            near: Sequence[Row] = yield Query(self._sql["newest_jobs"], given)
            if len(near) == which.limit:
                return near
        rows: Sequence[Row] = yield Query(self._sql[walk_of(which)], given)
        return rows

    def _look(self, name: str, *parameters: Any) -> Steps[Sequence[Row]]:
        """Return the rows of a statement that takes the time first."""
        rows: Sequence[Row] = yield Last(Query(self._sql[name], (self._given_now(), *parameters)))
        return rows
