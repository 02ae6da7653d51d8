"""A report as tables, which text, page and workbook show alike. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from enum import Enum

from msgspec import structs

from standfast.model.display import counted, one_line, short_id, span
from standfast.observe.alerts.evaluation import NOT_TOLD_YET
from standfast.observe.burn_rates import burn, percent, promise
from standfast.observe.reports.report import Deliveries, Present, QueueLine, Report

MOST_SHOWN = 5  # of what is slow and what is late so many are shown
MOST_WRONG = 50  # so many alerts and so many queues are shown; JSON has them all
_WIDEST = 60
_WIDEST_SAYS = 100

Cell = str | int | float | timedelta | datetime | None


class As(Enum):
    """What a column holds, and so how it is shown."""

    TEXT = "text"
    SAYS = "says"  # a sentence, which has more room than other texts
    ID = "id"  # the id of a job or an incident, of which commands take the end
    COUNT = "count"
    BAD = "bad"  # a count of what should not be: it stands out where it is not zero
    SPAN = "span"
    TIME = "time"
    SHARE = "share"
    BUDGET = "budget"  # a share that may be below zero, which stands out
    BURN = "burn"

    @property
    def is_number(self) -> bool:
        """Whether it is shown to the right."""
        return self not in {As.TEXT, As.SAYS, As.ID, As.TIME}


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its name, a word, and its title. `has_total`: its last row is the sum of those above."""

    name: str
    title: str
    columns: Sequence[tuple[str, As]]
    rows: Sequence[Sequence[Cell]]
    nothing: str
    note: str = ""
    has_total: bool = False

    def first(self, most: int) -> "Table":
        """Return it with so many rows, and how many there are beside them; a total stays, beyond their number."""
        total = self.rows[-1:] if self.has_total else ()
        lines = self.rows[: len(self.rows) - len(total)]
        left = len(lines) - most
        if left <= 0:
            return self
        more = f"{left:,} more: `standfast report` shows them."
        return replace(self, rows=[*lines[:most], *total], note=f"{more} {self.note}".rstrip())


def tables_of(report: Report, most: int | None = None) -> tuple[Table, ...]:
    """Return the tables of a report, what matters most first; `most` rows of each, if that is said."""
    now = _wrong_now(report.now, MOST_WRONG if most is None else min(most, MOST_WRONG))
    makers = (_objectives, _ran, _deaths, _incidents, _missed, _slowest, _latest, _notices)
    past = [make(report) for make in makers]
    return (now, *(past if most is None else (table.first(most) for table in past)))


def headline(report: Report) -> str:
    """Return all of it in one line: what is wrong now, then what was."""
    return f"{_present(report.now)}. {_past(report)}"


def _present(now: Present) -> str:
    untold = sum(each.heard == NOT_TOLD_YET for each in now.alerts)
    fire = counted(len(now.alerts), "alert fires", "alerts fire")
    wrong = [
        words
        for words, is_so in (
            ("no worker lives", not now.workers),
            (f"{fire} ({untold:,} not told yet)" if untold else fire, now.alerts),
            (counted(len(now.queues), "queue waits", "queues wait"), now.queues),
        )
        if is_so
    ]
    return f"Wrong now: {', '.join(wrong)}" if wrong else "Nothing is wrong now"


def _past(report: Report) -> str:
    total = report.total
    new = [each.count for each in report.incidents if each.first_at >= report.since]
    trouble = [
        counted(number, *words)
        for number, *words in (
            (total.dead, "dead job"),
            (sum(new), "incident"),
            (len(report.incidents) - len(new), "older incident that goes on", "older incidents that go on"),
            (sum(each.count for each in report.missed), "missed time"),
            (sum(not each.is_kept for each in report.standings), "broken objective"),
            (report.deliveries.lost, "lost delivery", "lost deliveries"),
        )
        if number
    ]
    return f"{counted(total.completed, 'job')} completed, {', '.join(trouble) or 'nothing went wrong'}"


def _wrong_now(now: Present, most: int) -> Table:
    columns = (("what", As.TEXT), ("about", As.TEXT), ("since", As.TIME), ("people", As.TEXT), ("says", As.SAYS))
    rows: list[Sequence[Cell]] = []
    if not now.workers:
        rows.append(
            ("no worker lives", None, None, None, "no job starts, and alerts are as the last look left them")
        )
    rows += [(each.rule, each.subject, each.since, each.heard, each.says) for each in now.alerts[:most]]
    rows += _rest(len(now.alerts) - most, "alerts", "standfast alerts list")
    rows += [
        ("queue waits", one_line(each.queue), each.oldest_due_at, None, _waits(each)) for each in now.queues[:most]
    ]
    rows += _rest(len(now.queues) - most, "queues", "standfast doctor")
    return Table("now", "What is wrong now", columns, rows, "Nothing is wrong now.")


def _waits(line: QueueLine) -> str:
    paused = "; it is paused" if line.paused_at else ""
    lack = "" if line.is_served else "; no living worker serves it"
    return f"{counted(line.due, 'due job')}, the oldest waits for {span(line.waits)}{paused}{lack}"


def _rest(more: int, what: str, command: str) -> Sequence[Sequence[Cell]]:
    """Return the row of those that are not shown, if there are any."""
    return [(f"{more:,} more {what}", None, None, None, f"`{command}` shows them")] if more > 0 else []


def _objectives(report: Report) -> Table:
    columns = (
        *(("objective", As.TEXT), ("promise", As.TEXT), ("good", As.COUNT), ("bad", As.BAD), ("share", As.SHARE)),
        *(("budget left", As.BUDGET), ("burn fast", As.BURN), ("burn slow", As.BURN)),
    )
    rows = [
        (
            *(each.objective.name, promise(each.objective), each.good, each.bad, each.share),
            *(each.budget_left, each.fast, each.slow),
        )
        for each in sorted(report.standings, key=lambda each: each.is_kept)
    ]
    return Table("objectives", "Objectives", columns, rows, "None is declared.")


def _ran(report: Report) -> Table:
    columns = (
        *(("task", As.TEXT), ("runs", As.COUNT), ("completed", As.COUNT), ("failed", As.BAD), ("dead", As.BAD)),
        *(("cancelled", As.COUNT), ("run p50", As.SPAN), ("p95", As.SPAN), ("longest", As.SPAN)),
    )
    has_total = len(report.tasks) > 1
    lines = [*report.tasks, *([structs.replace(report.total, task="all")] if has_total else ())]
    rows = [
        (
            *(line.task, line.runs, line.completed, line.failed, line.dead, line.cancelled),
            *(line.run_p50, line.run_p95, line.run_longest),
        )
        for line in lines
    ]
    return Table("ran", "What ran", columns, rows, "Nothing ran.", has_total=has_total)


def _deaths(report: Report) -> Table:
    columns = (
        *(("dead jobs", As.BAD), ("error", As.TEXT), ("tasks", As.TEXT)),
        *(("first", As.TIME), ("last", As.TIME), ("one of them", As.ID)),
    )
    rows = [
        (each.count, each.error, ", ".join(each.tasks), each.first_at, each.last_at, each.example)
        for each in report.deaths
    ]
    return Table("died", "What died, and why", columns, rows, "No job that died is dead still.")


def _incidents(report: Report) -> Table:
    columns = (
        *(("times", As.BAD), ("trouble", As.TEXT), ("what", As.TEXT), ("host", As.TEXT)),
        *(("since", As.TIME), ("last", As.TIME), ("incident", As.ID)),
    )
    rows = [
        (each.count, each.trouble, each.summary, each.host, each.first_at, each.last_at, each.id)
        for each in report.incidents
    ]
    return Table("incidents", "Incidents", columns, rows, "None.")


def _missed(report: Report) -> Table:
    columns = (
        *(("schedule", As.TEXT), ("missed", As.BAD), ("made up for", As.COUNT), ("not", As.BAD)),
        *(("first", As.TIME), ("last", As.TIME)),
    )
    rows = [
        (each.schedule, each.count, each.made_up, each.count - each.made_up, each.first_at, each.last_at)
        for each in report.missed
    ]
    return Table("missed", "Schedules that missed their time", columns, rows, "None.")


def _slowest(report: Report) -> Table:
    rows = _longest((line.run_longest, line.task, line.run_p95, line.run_p50) for line in report.tasks)
    columns = (("task", As.TEXT), ("longest run", As.SPAN), ("p95", As.SPAN), ("p50", As.SPAN))
    return Table("slowest", "Slowest", columns, rows, "Nothing ran.")


def _latest(report: Report) -> Table:
    rows = _longest((line.lag_longest, line.task, line.lag_p95, line.lag_p50) for line in report.tasks)
    columns = (("task", As.TEXT), ("latest start", As.SPAN), ("p95", As.SPAN), ("p50", As.SPAN))
    return Table("latest", "Latest to start, after their time", columns, rows, "Nothing started late.")


def _longest(lines: Iterable[tuple[timedelta | None, str, Cell, Cell]]) -> list[Sequence[Cell]]:
    """Return the rows of the tasks with the longest spans, of those that have any."""
    known = [(longest, task, p95, p50) for longest, task, p95, p50 in lines if longest is not None]
    known.sort(key=lambda each: each[:2], reverse=True)
    return [(task, longest, p95, p50) for longest, task, p95, p50 in known[:MOST_SHOWN]]


def _notices(report: Report) -> Table:
    columns = (("at", As.TIME), ("what", As.TEXT), ("severity", As.TEXT), ("rule", As.TEXT), ("title", As.TEXT))
    rows = [(each.at, each.kind.value, each.severity.value, each.rule, each.title) for each in report.notices]
    return Table("alerts", "Alerts that were told", columns, rows, "None.", _delivered(report.deliveries))


def _delivered(deliveries: Deliveries) -> str:
    """Return what became of deliveries in one line, if there were any."""
    if deliveries == Deliveries():
        return ""
    through = f" (through {one_line(', '.join(deliveries.lost_in))})" if deliveries.lost_in else ""
    arrived = counted(deliveries.delivered, "delivery", "deliveries")
    told = f"{arrived} arrived, {deliveries.lost:,} did not{through}"
    return f"{told}; {deliveries.waiting:,} on the way." if deliveries.waiting else f"{told}."


def said(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    """Return a cell as people read it; times by the clock of a zone, of this machine's where it is None."""
    match cell:
        case None:
            return ""
        case timedelta():
            return span(cell)
        case datetime():
            return _time(cell, zone)
        case float():
            return _share(cell, kind)
    return f"{cell:,}" if isinstance(cell, int) else cell


def said_briefly(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    """Return a cell on one line that is not too long, and of an id the end."""
    words = said(cell, kind, zone)
    if kind is As.ID:
        return short_id(words)
    return one_line(words, _WIDEST_SAYS if kind is As.SAYS else _WIDEST)


def _time(at: datetime, zone: tzinfo | None) -> str:
    try:
        return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a job may be due since the year 1, when there is no local time west of Greenwich
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _share(number: float, kind: As) -> str:
    if kind is As.BURN:
        return burn(number)
    digits = 1 if kind is As.BUDGET else 3
    return f"−{percent(-number, digits)}" if number < 0 else percent(number, digits)


def is_bad(cell: Cell, kind: As) -> bool:
    """Tell whether a cell is to stand out: something went wrong that it counts."""
    if not isinstance(cell, int | float):
        return False
    return (kind is As.BAD and cell > 0) or (kind is As.BUDGET and cell < 0)


def apps_words(report: Report) -> str:
    """Return whose report it is, on one line that is not too long."""
    return one_line(", ".join(report.apps), _WIDEST_SAYS) or "Standfast"


def span_words(report: Report, zone: tzinfo | None) -> str:
    """Return the time that a report is about: `2026-03-04 07:00 to 2026-03-05 07:00 (Asia/Taipei)`."""
    begin, end = report.since.astimezone(zone), report.until.astimezone(zone)
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} ({_zone_words(end)})"


def _zone_words(at: datetime) -> str:
    """Return the name of a time's zone, or how far it is from UTC; CST would be that of Taipei, or of Chicago."""
    return getattr(at.tzinfo, "key", None) or str(timezone(at.utcoffset() or timedelta()))
