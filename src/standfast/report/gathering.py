"""Gathers what a report says: what is wrong now, figures, dead jobs, incidents, fires, objectives and notices."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.alerts.board import alert_history
from standfast.alerts.delivery import QUEUE
from standfast.alerts.notices import KEPT
from standfast.app import Standfast
from standfast.catalogue.book import read_catalogue
from standfast.catalogue.entry import CatalogueView
from standfast.core.alert import Notice
from standfast.core.incident import Incident, Trouble
from standfast.core.job import Job
from standfast.core.record import Decision, Fire, FireCause
from standfast.core.states import State
from standfast.errors import ConfigurationError
from standfast.figures.reading import read_figures
from standfast.figures.series import Figures, Series
from standfast.incidents.book import list_incidents
from standfast.objectives.standing import read_standings
from standfast.policy import Seconds
from standfast.policy.reading import as_span
from standfast.report.model import DeathLine, IncidentLine, MissedLine, NoticeLine, Report, TaskLine
from standfast.report.own import deliveries_of, without_own
from standfast.report.present import LONGEST_TEXT, Look, look_around
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import JobFilter, JobPage, Store, ask_time
from standfast.watch.fingerprint import fingerprint
from standfast.words import one_line

LONGEST = timedelta(days=30)
"""Figures are kept for so long."""

DAY = timedelta(days=1)

MOST_DEAD, MOST_FIRES = 10_000, 10_000
"""So many dead jobs and fires are looked at, the newest."""

MOST_SHAPES = 200
"""So many errors that jobs died of have a line, the most frequent: a report is read by people, and sent to them."""

_REACH = 10_000
_PAGE = 200
_PAGE_BYTES = 8 * 1024 * 1024
_NO_ERROR = "no error was told"
_OTHER = "(other)"


def make_report(app: Standfast, since: Seconds = DAY) -> Report:
    """Return the report of the last so long, a day if not said: by the store of an app, blocking."""
    return app.call(gather_report(app.verbs, check_span(since)))


def check_span(since: Seconds) -> timedelta:
    """Return how far back a report goes. Raises ConfigurationError."""
    span = as_span(since)
    if not (isinstance(span, timedelta) and timedelta(minutes=1) <= span <= LONGEST):
        raise ConfigurationError(
            "since must be a timedelta or seconds, from a minute to 30 days, for which figures are kept,"
            f" not {since!r}"
        )
    return span


@errand
def gather_report(verbs: Store, back: timedelta) -> Verbs[Report]:
    """Return the report of the last so long; it begins with the figures, at the start of a minute or of an hour."""
    looked = yield ask_time(verbs)
    look: Look = yield from look_around(verbs)
    every: Series = yield from read_figures(verbs, looked.now - back).steps
    figures = without_own(every)
    since = figures.points[0].at
    view: CatalogueView = yield from read_catalogue(verbs).steps
    incidents: tuple[Incident, ...] = yield from list_incidents(verbs).steps
    dead, all_dead = yield from _dead_since(verbs, since)
    fires, all_fires = yield from _fires_since(verbs, since)
    standings = yield from read_standings(verbs, view.objectives).steps
    notices: Sequence[Notice] = yield from alert_history(verbs, KEPT).steps
    deaths = tuple(_deaths(dead))
    return Report(
        since=since,
        until=figures.now,
        apps=tuple(sorted({each.app for each in view.releases})),
        now=look.present,
        total=_task_line(figures.total, ""),
        tasks=tuple(_task_line(row, row.task or _OTHER) for row in figures.by_task() if _is_worth_a_line(row)),
        deaths=deaths[:MOST_SHAPES],
        incidents=tuple(_incidents(incidents, since)),
        missed=tuple(_missed(fires)),
        standings=standings,
        notices=tuple(_notices(notices, since)),
        deliveries=deliveries_of(every, look.queues.get(QUEUE), dead),
        left_out=tuple(
            words
            for words, is_all in (
                (f"dead jobs beyond the newest {MOST_DEAD:,}", all_dead),
                (f"errors beyond the {MOST_SHAPES:,} most frequent", len(deaths) <= MOST_SHAPES),
                (f"times of schedules beyond the latest {MOST_FIRES:,}", all_fires),
            )
            if not is_all
        ),
    )


def _is_worth_a_line(row: Figures) -> bool:
    """Tell whether anything ran or ended; what was only put aside again is no news."""
    return any(row.run) or row.ended > row.given_back


def _task_line(row: Figures, task: str) -> TaskLine:
    return TaskLine(
        task=task,
        runs=sum(row.run),
        completed=row.completed,
        failed=row.failed,
        dead=row.dead,
        cancelled=row.cancelled,
        run_p50=row.run_percentile(0.5),
        run_p95=row.run_percentile(0.95),
        run_longest=row.longest_run or None,
        lag_p50=row.lag_percentile(0.5),
        lag_p95=row.lag_percentile(0.95),
        lag_longest=row.longest_lag or None,
    )


def _dead_since(verbs: Store, since: datetime) -> Verbs[tuple[list[Job], bool]]:
    """Return the jobs that died since then and still are dead, and whether all dead jobs were looked at.

    Ids go by when jobs came, not by when they died. What jobs were given may be large: it is not kept, and pages
    have as few jobs as weigh little.
    """
    found: list[Job] = []
    which, left = JobFilter(states=(State.DEAD,), limit=_PAGE), MOST_DEAD
    while left > 0:
        page: JobPage = yield verbs.search_jobs(which, _REACH)
        found += (replace(job, payload=b"", result=None) for job in page.jobs if _died_at(job) >= since)
        if page.next is None:
            return found, True
        left -= len(page.jobs)
        which = replace(which, before=page.next, limit=_page_after(page.jobs))
    return found, False


def _page_after(jobs: Sequence[Job]) -> int:
    size = sum(len(job.payload) for job in jobs)
    return min(_PAGE, max(1, _PAGE_BYTES * len(jobs) // size)) if size else _PAGE


def _died_at(job: Job) -> datetime:
    return job.finished_at or job.run_at


def _deaths(jobs: Iterable[Job]) -> Iterable[DeathLine]:
    """Yield one line for errors of one shape, the most frequent first."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(fingerprint(job.error) or "", []).append(job)
    for name, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        times = [_died_at(job) for job in group]
        yield DeathLine(
            fingerprint=name,
            error=one_line(group[0].error or _NO_ERROR, LONGEST_TEXT),
            count=len(group),
            tasks=tuple(sorted({job.task for job in group})),
            first_at=min(times),
            last_at=max(times),
            example=group[0].id,
        )


def _incidents(incidents: Iterable[Incident], since: datetime) -> Iterable[IncidentLine]:
    """Yield those that happened since then; a picture that somebody asked for is none."""
    for each in incidents:
        if each.last_at >= since and each.trouble is not Trouble.SNAPSHOT:
            summary = one_line(each.summary, LONGEST_TEXT)
            yield IncidentLine(each.id, each.trouble.value, summary, each.count, each.host, each.at, each.last_at)


def _fires_since(verbs: Store, since: datetime) -> Verbs[tuple[list[Fire], bool]]:
    """Return what became of times since then, and whether all were looked at; a row of times counts by its end."""
    found: list[Fire] = []
    before, left = None, MOST_FIRES
    while left > 0:
        page: Sequence[Fire] = yield verbs.fires(None, _PAGE, before)
        found += (fire for fire in page if (fire.until or fire.planned) >= since)
        if len(page) < _PAGE or page[-1].planned < since:
            return found, True
        left, before = left - len(page), page[-1].planned
    return found, False


def _missed(fires: Iterable[Fire]) -> Iterable[MissedLine]:
    """Yield one line for each schedule that missed a time, made up for or not, those that missed most first."""
    groups: dict[str, list[Fire]] = {}
    for fire in fires:
        if fire.decision in {Decision.MISSED, Decision.CAUGHT_UP} and fire.cause is FireCause.RULE:
            groups.setdefault(fire.schedule, []).append(fire)
    lines = [
        MissedLine(
            name,
            sum(fire.count for fire in group),
            min(fire.planned for fire in group),
            max(fire.until or fire.planned for fire in group),
            sum(fire.count for fire in group if fire.decision is Decision.CAUGHT_UP),
        )
        for name, group in groups.items()
    ]
    return sorted(lines, key=lambda line: (-line.count, line.schedule))


def _notices(notices: Iterable[Notice], since: datetime) -> Iterable[NoticeLine]:
    """Yield what was told since then."""
    for each in notices:
        if each.at >= since:
            title = one_line(each.title, LONGEST_TEXT)
            yield NoticeLine(each.at, each.kind, each.severity, each.rule, title)
