"""What a person sees first: whether all is well, and what is going on."""

import time
from datetime import timedelta

from holdfast.core.job import Job
from holdfast.core.record import Kind
from holdfast.core.states import Reason, State
from holdfast.dashboard.desk import Desk
from holdfast.dashboard.operation import reads
from holdfast.dashboard.reading.figures import completed_last_minute, last_hour
from holdfast.dashboard.reading.incidents import jobs_of
from holdfast.dashboard.reading.rows import incident_row, job_row
from holdfast.dashboard.reading.schedules import list_schedules
from holdfast.dashboard.reading.selecting import REACH
from holdfast.dashboard.reading.verdict import RECENT_DEATHS, RECENT_INCIDENTS, Sight, judge
from holdfast.dashboard.shapes.overview import OverviewSeen
from holdfast.dashboard.shapes.schedules import ScheduleRow
from holdfast.dashboard.shapes.words import NothingAsked
from holdfast.incidents.book import list_incidents
from holdfast.schedule.published import read_windows
from holdfast.store.protocol import JobFilter

FEW = 5
"""So many of each kind are shown."""

_LOOKED_AT = 500
"""So many of the newest dead, and of the blocked, are looked at."""


@reads("overview.show", "/overview")
async def show_overview(desk: Desk, asked: NothingAsked) -> OverviewSeen:
    """Show whether all is well, and what is going on."""
    begun = time.monotonic()
    workers = await desk.ask(desk.verbs.workers())
    took = time.monotonic() - begun
    ages = await desk.ask(desk.verbs.queue_ages())
    counts = await desk.ask(desk.verbs.count())
    published = await desk.ask(desk.verbs.records(Kind.WINDOW))
    schedules = (await desk.read(list_schedules, asked)).schedules
    incidents = await desk.ask(list_incidents(desk.verbs))
    figures = await last_hour(desk)
    dead = await _newest(desk, State.DEAD) if counts[State.DEAD] else ()
    recent = [job for job in dead if job.finished_at and ages.now - job.finished_at <= RECENT_DEATHS]
    blocked = await _newest(desk, State.BLOCKED) if counts[State.BLOCKED] else ()
    unknown = sum(job.reason == Reason.NO_WORKER for job in blocked)
    sight = Sight(
        workers=workers,
        ages=ages,
        windows=read_windows(published),
        died=len(recent),
        died_more=len(recent) == _LOOKED_AT,
        blocked=unknown,
        schedules=schedules,
        incidents=incidents,
        took=took,
    )
    latest = [each for each in incidents if ages.now - each.last_at <= RECENT_INCIDENTS][:FEW]
    found = await jobs_of(desk, latest)
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
        schedules=_soonest(schedules),
        incidents=tuple(incident_row(each, found) for each in latest),
        store_took=round(took, 4),
    )


async def _newest(desk: Desk, state: State) -> tuple[Job, ...]:
    page = await desk.ask(desk.verbs.search_jobs(JobFilter(states=(state,), limit=_LOOKED_AT), REACH))
    return page.jobs


def _soonest(schedules: tuple[ScheduleRow, ...]) -> tuple[ScheduleRow, ...]:
    """Return the schedules that fire next."""
    ahead = sorted((each.next_at, each.name, each) for each in schedules if each.next_at is not None)
    return tuple(each for _, _, each in ahead[:FEW])
