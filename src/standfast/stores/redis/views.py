"""What people and programs look at. Nothing here writes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from standfast.model.job import Attempt, Glance, Job
from standfast.model.memos import Memo
from standfast.model.states import CLAIMED, State
from standfast.stores.redis.rows import Row, pack, pairs, read_memo, to_attempt, to_glance, to_job, to_worker
from standfast.stores.rows import from_micros, from_micros_or_none
from standfast.stores.values import (
    JobFilter,
    JobPage,
    Queue,
    QueueAge,
    QueueAges,
    Situation,
    UnknownAge,
    Worker,
    page_of,
)
from standfast.stores.verb import Access, Script, Steps, verb

_STRETCH = 1000
"""So many jobs one script looks at. A list that passes over more takes several, each of them one moment's view."""

_FARTHEST = 3 * _STRETCH
"""So many jobs a search looks at, at most: for each of them the server does nothing else for ten microseconds."""


class ViewVerbs:
    """The reads."""

    @verb(Access.READ)
    def get(self, job_id: str) -> Steps[Job | None]:
        row = yield Script("get", (job_id,))
        return None if row is None else to_job(row)

    @verb(Access.READ)
    def list_jobs(self, which: JobFilter, span: int | None = None) -> Steps[JobPage]:
        if span is not None:
            span = min(span, _FARTHEST)
        walk, place = (
            _shortest_list(which),
            (pack((which.queue, which.task, which.possible_states)), *_parts(which)),
        )
        found: list[Job] = []
        last: str | None = which.before or ""
        while last is not None and len(found) < which.limit and span != 0:
            stretch = _STRETCH if span is None else min(span, _STRETCH)
            bounds = (last, which.after or "", which.limit - len(found), stretch)
            rows, end, looked_at = yield Script("list", (walk, *bounds, *place))
            found += [job for job in map(to_job, rows) if which.matches(job)]
            last = None if end is None else end.decode()
            span = None if span is None else span - looked_at
        return page_of(which, tuple(found), () if last is None else (last, ""))

    @verb(Access.READ)
    def glance(self, job_ids: Sequence[str]) -> Steps[Mapping[str, Glance]]:
        reply = yield Script("glance", (pack(list(job_ids)),))
        seen = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        return {job_id.decode(): to_glance(state, progress) for job_id, state, progress in seen}

    @verb(Access.READ)
    def history(self, job_id: str) -> Steps[tuple[Attempt, ...]]:
        counted: bytes | None = b""
        while counted is not None:
            counted, rows = yield Script("history", (job_id, counted))
        return tuple(to_attempt(row) for row in rows)

    @verb(Access.READ)
    def memos(self, job_id: str) -> Steps[tuple[Memo, ...]]:
        flat = yield Script("memos", (job_id,))
        return tuple(sorted((read_memo(*pair) for pair in pairs(flat)), key=attrgetter("name")))

    @verb(Access.READ)
    def queues(self) -> Steps[tuple[Queue, ...]]:
        counted, waiting, paused = yield Script("queues")
        paused_at = {name.decode(): int(since) for name, since in pairs(paused)}
        states: defaultdict[str, dict[State, int]] = defaultdict(dict)
        for name, state, number in _counts(counted, waiting):
            states[name][state] = number
        return tuple(
            Queue(name, from_micros_or_none(paused_at.get(name)), states[name])
            for name in sorted(states.keys() | paused_at.keys())
        )

    @verb(Access.READ)
    def workers(self) -> Steps[tuple[Worker, ...]]:
        rows = yield Script("workers")
        return tuple(to_worker(row) for row in rows)

    @verb(Access.READ)
    def queue_ages(self) -> Steps[QueueAges]:
        now, rows, lanes = yield Script("queue_ages")
        ages = (
            QueueAge(name.decode(), from_micros(int(oldest)), from_micros_or_none(paused and int(paused)))
            for name, oldest, paused in rows
        )
        unknown: dict[tuple[str, str, int], int] = {}
        for queue, task, version, oldest in lanes:  # a lane for each priority
            kind = queue.decode(), task.decode(), int(version)
            unknown[kind] = min(unknown.get(kind, int(oldest)), int(oldest))
        return QueueAges(
            from_micros(int(now)),
            tuple(sorted(ages, key=attrgetter("name"))),
            tuple(UnknownAge(*kind, from_micros(unknown[kind])) for kind in sorted(unknown)),
        )

    @verb(Access.READ)
    def situation(self, job_id: str) -> Steps[Situation | None]:
        reply = yield Script("situation", (job_id,))
        if reply is None:
            return None
        now, job, workers, paused_at, ahead = reply
        since = None if paused_at is None else from_micros(int(paused_at))
        return Situation(to_job(job), from_micros(int(now)), since, tuple(map(to_worker, workers)), ahead)

    @verb(Access.READ)
    def unsettled(self, queues: tuple[str, ...] | None) -> Steps[int]:
        number: int = yield Script("unsettled", (pack(queues),))
        return number


def _shortest_list(which: JobFilter) -> str:
    """Return the list that has the fewest jobs to pass over: a key's, a tag's, those in some states, or all."""
    if which.key is not None:
        return f"keyed:{which.key}"
    if which.tags:
        return f"tag:{which.tags[0]}"
    if which.worker is not None:
        return f"held:{which.worker}"
    states = set(which.possible_states)
    if states <= CLAIMED:
        return "claims"
    if states <= {State.READY, State.SCHEDULED}:
        return "lanes"
    return "dead" if states == {State.DEAD} else "all"


def _parts(which: JobFilter) -> list[bytes]:
    """Return what is somewhere in what is stored of each wanted job."""
    names = [pack(name) for name in (which.queue, which.task) if name is not None]
    return names + [pack(name) + pack(value) for name, value in which.metadata.items()]


def _counts(counted: Row, waiting: Sequence[Row]) -> Iterator[tuple[str, State, int]]:
    """Yield how many jobs of a queue are in a state, where there are any."""
    for field, number in pairs(counted):
        state, _, name = field.decode().partition(":")
        if int(number) > 0:
            yield name, State(state), int(number)
    for name, ready, scheduled in waiting:
        if ready:
            yield name.decode(), State.READY, ready
        if scheduled:
            yield name.decode(), State.SCHEDULED, scheduled
