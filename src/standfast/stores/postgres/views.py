"""What can be seen of a PostgreSQL store.

Which page of jobs a filter means: along which walk, and with what parameters.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, Attempt, Glance, Job
from standfast.model.memos import SLEEPING, signal_reason
from standfast.model.states import Move, State
from standfast.stores.postgres.rows import RememberingVerbs, as_json, is_id, note, to_glance, to_worker
from standfast.stores.rows import from_micros, from_micros_or_none
from standfast.stores.statements import Row, to_attempt, to_job
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
from standfast.stores.verb import Access, Last, Query, Steps, Together, verb

LONGEST_PAGE = 500
"""More jobs than this do not come in one statement (`page` in views.sql)."""

_IDS = 1 << 128
_NEWEST = str(UUID(int=_IDS - 1))
_BEFORE_ALL = str(UUID(int=0))

_PLANES = 0x20000
"""Where letters with upper and lower case end in Unicode: behind it are ideographs and signs."""


def walk_of(which: JobFilter) -> str:
    """Return the statement that has the fewest jobs to pass over: a key's, a tag's, those in a state, or all."""
    if which.key is not None:
        return "keyed_jobs"
    if which.tags:
        return "tagged_jobs"
    return "jobs_in_states" if _states(which) else "jobs"


def parameters_of(which: JobFilter) -> tuple[object, ...] | None:
    """Return the parameters of such a statement after the time; None where no job can be on the page."""
    place = _place(which)
    if place is None or not which.possible_states or not all(map(_can_be_stored, _texts(which))):
        return None
    metadata = json.dumps(dict(which.metadata)) if which.metadata else None
    wanted = (_states(which), which.queue, which.task, *place, which.limit, which.key)
    return (*wanted, list(which.tags) or None, metadata, *_part_of_error(which.error), which.worker)


def end_parameters_of(which: JobFilter, walk: str, span: int) -> tuple[object, ...]:
    """Return the parameters of the statement that finds where a look at some jobs of a walk ends."""
    more: dict[str, tuple[object, ...]] = {
        "keyed_jobs": (which.key,),
        "tagged_jobs": which.tags[:1],
        "jobs_in_states": (_states(which),),
    }
    return (*(_place(which) or (_BEFORE_ALL, _NEWEST)), span, *more.get(walk, ()))


def _states(which: JobFilter) -> list[str] | None:
    """Return the states to look for, None for all."""
    states = which.possible_states
    return None if len(states) == len(State) else [state.value for state in states]


def _place(which: JobFilter) -> tuple[str, str] | None:
    """Return the newest id that may be shown, and the one that all are greater than; None where none can be."""
    newest = _NEWEST if which.before is None else _last_id_before(which.before)
    after = _BEFORE_ALL if which.after is None else _last_id_not_after(which.after)
    return None if newest is None else (newest, after)


def _texts(which: JobFilter) -> Iterator[str]:
    given = (which.queue, which.task, which.key, which.error, which.worker)
    return chain((text for text in given if text is not None), which.tags, *which.metadata.items())


def _can_be_stored(text: str) -> bool:
    """Tell whether the server can have this text: it has no NUL, and nothing that is not Unicode."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _last_id_before(text: str) -> str | None:
    """Return the greatest id that is less than a text, letter by letter; it need not be that of a job."""
    number = UUID(text).int if is_id(text) else _first_not_less(text)
    return str(UUID(int=number - 1)) if number else None


def _last_id_not_after(text: str) -> str:
    """Return the greatest id that is not greater than a text; it need not be that of a job."""
    return str(UUID(text)) if is_id(text) else _last_id_before(text) or _BEFORE_ALL


def _first_not_less(text: str) -> int:
    low, high = 0, _IDS
    while low < high:
        middle = (low + high) // 2
        if str(UUID(int=middle)) < text:
            low = middle + 1
        else:
            high = middle
    return low


def _part_of_error(text: str | None) -> tuple[str | None, str, str]:
    """Return a part of an error in small letters, the letters that become those of it, and what each becomes.

    The server's own idea of upper and lower depends on its locale, and may end with ASCII.
    """
    if not text:
        return None, "", ""
    part = "".join(map(_lower, text))
    pairs = [(other, letter) for letter in sorted(set(part)) for other in _other_cases().get(letter, "")]
    return part, "".join(other for other, _ in pairs), "".join(letter for _, letter in pairs)


@cache
def _other_cases() -> Mapping[str, str]:
    """Return for every letter those that become it."""
    others: defaultdict[str, str] = defaultdict(str)
    for letter in map(chr, range(_PLANES)):
        lower = _lower(letter)
        if lower != letter:
            others[lower] += letter
    return others


def _lower(letter: str) -> str:
    lower = letter.lower()
    return lower if len(lower) == 1 else letter


# What people and programs look at. Nothing here writes.


class ViewVerbs(RememberingVerbs):
    """The reads. Each is one statement, or decides by the last one: so nothing moves while it looks."""

    @verb(Access.READ)
    def get(self, job_id: str) -> Steps[Job | None]:
        if not is_id(job_id):
            return None
        rows = yield from self._look("job", job_id)
        return to_job(rows[0]) if rows else None

    @verb(Access.READ)
    def list_jobs(self, which: JobFilter, span: int | None = None) -> Steps[JobPage]:
        walk, end = walk_of(which), list[str]()
        if span is not None and which.passes_over and parameters_of(which) is not None:
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
        rows = yield from self._look("glance", [job_id for job_id in job_ids if is_id(job_id)])
        return {job_id: to_glance(row) for job_id, *row in rows}

    @verb(Access.READ)
    def history(self, job_id: str) -> Steps[tuple[Attempt, ...]]:
        if not is_id(job_id):
            return ()
        rows = yield Last(Query(self._sql["history"], (job_id, Move.COMPLETE.value, HISTORY_FIRST, HISTORY_LAST)))
        return tuple(to_attempt(row) for row in rows)

    @verb(Access.READ)
    def queues(self) -> Steps[tuple[Queue, ...]]:
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
        rows = yield from self._look("workers")
        return tuple(to_worker(row) for row in rows)

    @verb(Access.READ)
    def queue_ages(self) -> Steps[QueueAges]:
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
    def situation(self, job_id: str) -> Steps[Situation | None]:
        rows = (yield from self._look("situation", job_id)) if is_id(job_id) else ()
        if not rows:
            return None
        now, paused_at, workers, ahead, *job = rows[0]
        roster = tuple(to_worker(tuple(row.values())) for row in json.loads(workers or "[]"))
        return Situation(to_job(job), from_micros(now), from_micros_or_none(paused_at), roster, ahead)

    @verb(Access.READ)
    def unsettled(self, queues: tuple[str, ...] | None) -> Steps[int]:
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
