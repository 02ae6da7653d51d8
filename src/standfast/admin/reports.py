"""Reports: what is wrong now, and what ran in a span of time, failed, was slow or late.

    gathered ─► a Report ─► text, page or workbook
                         └─► one delivery ordered, now or each morning ─► sent, tried again

What Standfast runs on its own behalf, to tell people something, is no work of theirs and not in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from msgspec.structs import replace

from standfast.admin.job_details import fingerprint
from standfast.app import Standfast
from standfast.context import Context
from standfast.errors import ConfigurationError
from standfast.model.alerts import Alert, Notice, NoticeKind, Severity
from standfast.model.display import one_line
from standfast.model.incidents import Incident, Trouble
from standfast.model.job import Job, channel_of
from standfast.model.records import Decision, Fire, FireCause, Kind, Record
from standfast.model.states import FINAL, State
from standfast.model.validation import Seconds, as_seconds, as_span
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.board_changes import KEPT, alert_history, read_board
from standfast.observe.alerts.delivery import DELIVER, QUEUE, order_delivery, sends_html
from standfast.observe.alerts.evaluation import heard
from standfast.observe.alerts.observations import QueueCoverage
from standfast.observe.burn_rates import read_standings
from standfast.observe.catalogue import CatalogueView, read_catalogue
from standfast.observe.figures.series import Figures, Series, read_figures, sum_of
from standfast.observe.health.status import LONG_WAIT
from standfast.observe.incidents import list_incidents
from standfast.observe.obstacles import queue_closed
from standfast.observe.reports.plain_text import brief_of
from standfast.observe.reports.report import (
    AlertLine,
    DeathLine,
    Deliveries,
    IncidentLine,
    MissedLine,
    NoticeLine,
    Present,
    QueueLine,
    Report,
    TaskLine,
)
from standfast.observe.reports.tables import headline
from standfast.schedules.closed_hours import read_windows
from standfast.schedules.rules import Cron
from standfast.schedules.zones import find_zone
from standfast.stores.contract import Store, ask_time
from standfast.stores.values import JobFilter, JobPage, Queue, QueueAges, Worker
from standfast.stores.verb import Verbs, procedure
from standfast.task import Task

__all__ = ["Report", "gather_report", "make_report", "schedule_report"]

REPORT = "standfast.report"  # the task that sends reports, and the name of its schedule if it is given none
_OWN = frozenset({DELIVER, REPORT})


def without_own(series: Series) -> Series:
    """Return the figures of the tasks of apps alone."""
    points = (
        replace(point, rows=tuple(row for row in point.rows if row.task not in _OWN)) for point in series.points
    )
    return replace(series, points=tuple(points))


def deliveries_of(series: Series, queue: Queue | None, dead: Iterable[Job]) -> Deliveries:
    """Return what became of deliveries, by all figures, the dead jobs, and their queue as it is now."""
    delivered, reported = (_sum_of_task(series, task) for task in (DELIVER, REPORT))
    states = {} if queue is None else queue.states
    return Deliveries(
        delivered=delivered.completed,
        lost=delivered.dead + delivered.cancelled + reported.dead,
        waiting=sum(number for state, number in states.items() if state not in FINAL),
        lost_in=tuple(sorted({name for job in dead if (name := channel_of(job.task, job.metadata)) is not None})),
    )


def _sum_of_task(series: Series, task: str) -> Figures:
    return sum_of(row for point in series.points for row in point.rows if row.task == task)


LONGEST_TEXT = 300  # characters of foreign text in a cell


def _read_current_state(verbs: Store) -> Verbs[tuple[Present, Mapping[str, Queue]]]:
    """Return what is wrong now, and the queues by name, by five calls, and one more where a queue waits."""
    board: Board = yield from read_board(verbs).steps
    workers: Sequence[Worker] = yield verbs.workers()
    ages: QueueAges = yield verbs.queue_ages()
    queues: Mapping[str, Queue] = {queue.name: queue for queue in (yield verbs.queues())}
    living = [each for each in workers if each.is_live and not each.info.is_courier]
    late = list(_late(ages, QueueCoverage(living), queues))
    if late:
        records: Sequence[Record] = yield verbs.records(Kind.WINDOW)
        windows = read_windows(records)
        late = [line for line in late if queue_closed(windows, line.queue, ages.now) is None]
    firing = sorted(board.firing, key=lambda alert: alert.severity is not Severity.CRITICAL)
    present = Present(
        workers=len(living),
        alerts=tuple(map(_alert, firing)),
        queues=tuple(sorted(late, key=lambda line: line.oldest_due_at)),
    )
    return present, queues


def _alert(alert: Alert) -> AlertLine:
    """Return an alert without its examples, and without who has said something about it."""
    rule, subject, says = (one_line(text, LONGEST_TEXT) for text in (alert.rule, alert.subject, alert.says))
    return AlertLine(rule, subject, alert.severity, alert.since, says, heard(alert))


def _late(ages: QueueAges, living: QueueCoverage, queues: Mapping[str, Queue]) -> Iterable[QueueLine]:
    """Yield the queues whose oldest due job waits for long, or for a worker that is not there."""
    for age in ages.queues:
        is_served = age.name in living or age.name == QUEUE  # supervisors deliver, too
        waits = ages.now - age.oldest_due_at
        if waits > LONG_WAIT or not (is_served or age.paused_at):
            queue = queues.get(age.name)
            yield QueueLine(
                queue=age.name,
                oldest_due_at=age.oldest_due_at,
                waits=waits,
                due=max(1, queue.states.get(State.READY, 0) if queue else 0),  # asked a moment later than `ages`
                is_served=is_served,
                paused_at=age.paused_at,
            )


LONGEST = timedelta(days=30)  # figures are kept for so long
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


@procedure
def gather_report(verbs: Store, back: timedelta) -> Verbs[Report]:
    """Return the report of the last so long; it begins with the figures, at the start of a minute or of an hour."""
    looked = yield ask_time(verbs)
    present, queues = yield from _read_current_state(verbs)
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
        now=present,
        total=_task_line(figures.total, ""),
        tasks=tuple(
            _task_line(row, row.task or _OTHER)
            for row in figures.by_task()
            if any(row.run) or row.ended > row.given_back  # what was only put aside again is no news
        ),
        deaths=deaths[:MOST_SHAPES],
        incidents=tuple(_incidents(incidents, since)),
        missed=tuple(_missed(fires)),
        standings=standings,
        notices=tuple(_notices(notices, since)),
        deliveries=deliveries_of(every, queues.get(QUEUE), dead),
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
        page: JobPage = yield verbs.list_jobs(which, _REACH)
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


_LONGEST_LABEL = 200


def schedule_report(
    app: Standfast,
    expression: str,
    *,
    channel: str,
    tz: str = "UTC",
    since: Seconds = DAY,
    name: str = REPORT,
    queue: str = "default",
) -> None:
    """Declare that a report of the last so long goes through a channel whenever a cron expression says so.

    It is a schedule as any other, and fires once for the whole fleet; `tz` is also the zone of the times in it. One
    more of them needs a `name` of its own.
    """
    if not isinstance(channel, str) or not channel:
        raise ConfigurationError(f"a report needs the name of a channel that app.alerts declares, not {channel!r}")
    seconds = as_seconds(check_span(since))
    rule = Cron(expression, tz=tz)
    app.need_channel(channel, f"the report {name!r}")
    app.schedule(name, _task_of(app).options(queue=queue), rule, channel=channel, since=seconds, tz=tz)


def _task_of(app: Standfast) -> Task[..., str]:
    known = app.tasks.get(REPORT)
    if known is not None:
        return known

    @app.task(name=REPORT)
    def send_report(ctx: Context, channel: str, since: float, tz: str) -> str:
        """Gather a report and have it sent: in a thread, as figures of many days take a while to add up."""
        report = app.call(gather_report(app.verbs, timedelta(seconds=since)))
        notice = notice_of(report, find_zone(tz), ctx.job_id, app.settings.namespace)
        if not any(each.name == channel and sends_html(each) for each in app.watching.channels):
            notice = replace(notice, html="")  # nobody would show it, and a job need not carry it
        app.call(order_delivery(app.verbs, notice, (channel,), app.known_as))
        ctx.fault_point("ordered")
        return notice.title

    return send_report


def notice_of(report: Report, zone: tzinfo | None, notice_id: str, namespace: str | None = None) -> Notice:
    """Return what is sent of a report: its headline, and what fits of it as text and for mails."""
    brief = brief_of(report, zone)
    labels = {"app": one_line(", ".join(report.apps), _LONGEST_LABEL), "namespace": namespace or ""}
    return Notice(
        id=notice_id,
        kind=NoticeKind.REPORT,
        at=report.until,
        rule="report",
        severity=Severity.WARNING,
        title=headline(report),
        labels={name: value for name, value in labels.items() if value},
        text=brief.text,
        html=brief.html,
    )
