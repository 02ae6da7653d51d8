"""What a person sees first: whether all is well, and what is going on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from standfast.core.alert import AlertState
from standfast.core.job import Job
from standfast.core.states import CLAIMED, Reason, State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.alerts import alert_rows, worst_first
from standfast.dashboard.reading.figures import completed_last_minute, last_hour
from standfast.dashboard.reading.incidents import incident_row, jobs_of
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.schedules import read_timetable
from standfast.dashboard.reading.shared_looks import (
    SELDOM,
    all_ages,
    all_queues,
    all_workers,
    board,
    closed_hours,
    late_incidents,
)
from standfast.dashboard.reading.verdict import RECENT_DEATHS, RECENT_INCIDENTS, Sight, judge
from standfast.dashboard.shapes.overview import OverviewSeen, QueueShort
from standfast.dashboard.shapes.words import NothingAsked
from standfast.figures.series import Series
from standfast.store.protocol import JobFilter, Queue, QueueAges

FEW = 5
"""So many of each kind are shown."""

MANY = 10
"""So many queues."""

COUNTED = 200
"""So many of those that died are counted; of more it is said that there are more."""

_LOOKED_AT = COUNTED + 1
"""So many of the newest dead, and of the blocked, are looked at."""


@reads("overview.show", "/overview")
async def show_overview(desk: Desk, asked: NothingAsked) -> OverviewSeen:  # noqa: ARG001 - there is nothing to ask
    """Show whether all is well, and what is going on."""
    ages, took = await all_ages(desk)
    workers = await all_workers(desk)
    queues = await all_queues(desk)
    counts = _counts(queues)
    timetable = await desk.recall("schedules", lambda: read_timetable(desk), SELDOM)
    incidents = await late_incidents(desk)
    figures = await last_hour(desk)
    dead = await _newest(desk, State.DEAD, counts)
    recent = [job for job in dead if job.finished_at and ages.now - job.finished_at <= RECENT_DEATHS]
    blocked = await _newest(desk, State.BLOCKED, counts)
    unknown = sum(job.reason == Reason.NO_WORKER for job in blocked)
    firing = [each for each in worst_first(await board(desk), AlertState.FIRING) if not each.silenced]
    sight = Sight(
        workers=workers,
        ages=ages,
        windows=await closed_hours(desk),
        died=min(len(recent), COUNTED),
        died_more=len(recent) > COUNTED,
        blocked=unknown,
        schedules=timetable.troubled(),
        incidents=incidents,
        alerts=firing,
        took=took,
    )
    latest = [each for each in incidents if ages.now - each.last_at <= RECENT_INCIDENTS][:FEW]
    ids = tuple((each.id, each.count) for each in latest)
    found = await desk.recall(("jobs of", ids), lambda: jobs_of(desk, latest), SELDOM)
    oldest = max((ages.now - each.oldest_due_at for each in ages.queues), default=None)
    return OverviewSeen(
        now=ages.now,
        verdict=judge(sight),
        workers_live=len(sight.live),
        workers_total=len(workers),
        counts={state.value: counts[state] for state in State},
        oldest_due_age=None if oldest is None else max(oldest, timedelta()).total_seconds(),
        per_minute=completed_last_minute(figures),
        failures=tuple(
            job_row(job) for job in sorted(recent, key=lambda job: job.finished_at or ages.now, reverse=True)[:FEW]
        ),
        queues=_busiest(queues, ages, figures),
        schedules=timetable.soonest(ages.now, FEW),
        incidents=tuple(incident_row(each, found) for each in latest),
        store_took=round(took, 4),
        alerts=alert_rows(firing),
    )


def _counts(queues: Iterable[Queue]) -> Mapping[State, int]:
    """Return how many jobs are in each state."""
    counts = dict.fromkeys(State, 0)
    for queue in queues:
        for state, number in queue.states.items():
            counts[state] += number
    return counts


def _busiest(queues: Iterable[Queue], ages: QueueAges, figures: Series) -> tuple[QueueShort, ...]:
    """Return the queues of which there is most to tell, by name: those that are paused, or have the most jobs."""
    oldest = {each.name: (ages.now - each.oldest_due_at).total_seconds() for each in ages.queues}
    done = Counter[str]()
    for point in figures.points:
        for row in point.rows:
            done[row.queue] += row.completed
    told = sorted(queues, key=lambda each: (each.paused_at is None, -_waiting(each), -done[each.name], each.name))[
        :MANY
    ]
    names = {queue.name for queue in told}
    completed = {name: [0] * len(figures.points) for name in names}
    for place, point in enumerate(figures.points):
        for row in point.rows:
            if row.queue in names:
                completed[row.queue][place] += row.completed
    return tuple(
        QueueShort(
            name=queue.name,
            paused_at=queue.paused_at,
            ready=_waiting(queue),
            busy=sum(queue.states.get(state, 0) for state in CLAIMED),
            oldest_age=None if queue.name not in oldest else max(0.0, oldest[queue.name]),
            completed=tuple(completed[queue.name]),
        )
        for queue in sorted(told, key=lambda queue: queue.name)
    )


def _waiting(queue: Queue) -> int:
    return queue.states.get(State.READY, 0)


async def _newest(desk: Desk, state: State, counts: Mapping[State, int]) -> tuple[Job, ...]:
    """Return the newest jobs in a state; while there are as many as before, those of not long ago."""
    if not counts[state]:
        return ()
    which = JobFilter(states=(state,), limit=_LOOKED_AT)
    page = await desk.recall(
        (state, counts[state]), lambda: desk.ask(desk.verbs.search_jobs(which, _LOOKED_AT)), SELDOM
    )
    return page.jobs
