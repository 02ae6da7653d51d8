"""Answers of operations, as pages get them: of an empty store, and of one with everything in it."""

# ruff: noqa: C408, E501 - samples are tables: short to write, and long lines of them are read as rows

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import asdict
from starlette.applications import Starlette

from standfast.admin import (
    alerts,
    audit,
    bulk_jobs,
    fields,
    figures,
    incidents,
    job_search,
    locks,
    objectives,
    overview,
    queues,
    schedules,
    settings,
    tasks,
    workers,
)
from standfast.admin import jobs as job
from standfast.admin.operation import NotAllowedError, Operation, Role, User
from standfast.dashboard.web.routes import routes
from standfast.dashboard.web.site import Site
from standfast.model.alerts import AlertState, Check, Held, NoticeKind, Severity
from standfast.model.incidents import Trouble
from standfast.model.job import OnLate
from standfast.model.records import Decision, FireCause
from standfast.model.states import State
from standfast.stores.values import Vitals


class Parts:
    """A file as it is written, as often as it is asked for."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[str]:
        for part in self._parts:
            yield part


NOW = datetime(2026, 11, 16, 10, 50, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ID = "019a8c11-7d1e-7c3a-9f60-5a4b3c2d1e0f"
NASTY = "<script>alert('x')</script>\"&"


def ago(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


def row(**changed: Any) -> job_search.JobRow:
    given = dict(
        id=ID, task="shop.send_email", queue="mail", state=State.DEAD, reason=None, priority=0, attempt=5,
        max_attempts=5, at=ago(3), run_at=ago(9), created_at=ago(30), finished_at=ago(3), worker=None, key="order-42",
        tags=("billing", NASTY), schedule=None, waits_for=None, cancel_requested=False, progress=None,
        error="ValueError: 'a@example' is no address", fingerprint="f00d", fence=5,
    )  # fmt: skip
    return job_search.JobRow(**{**given, **changed})


RUNNING = row(
    id=ID[:-2] + "aa", task="shop.report", queue="default", state=State.RUNNING, attempt=0, finished_at=None, error=None,
    key=None, tags=(), worker="web-1:411:3", progress=fields.ProgressSeen(done=42, total=120, note="rows", share=0.35),
)  # fmt: skip
ROWS = (
    row(),
    RUNNING,
    row(
        id=ID[:-2] + "bb", state=State.COMPLETED, task="shop.resize", queue="images", attempt=0, error=None, tags=()
    ),
    row(
        id=ID[:-2] + "cc",
        state=State.SCHEDULED,
        task="shop.remind",
        at=ago(-90),
        attempt=1,
        finished_at=None,
        tags=(),
    ),
    row(id=ID[:-2] + "dd", state=State.READY, task=NASTY, queue=NASTY, key=NASTY, error=NASTY, finished_at=None),
    row(id=ID[:-2] + "ee", state=State.BLOCKED, reason="no_worker", finished_at=None, error=None, tags=()),
)
POINTS = tuple(
    figures.PointSeen(
        at=ago(60 - n), completed=int(40 + 25 * math.sin(n / 7) + n % 5), failed=3 if n % 13 == 0 else 0, dead=n == 40,
        depth=max(0, int(30 * math.sin(n / 9))), age=abs(math.sin(n / 9)) * 1.4, run_p50=0.02 + 0.01 * math.sin(n / 5),
        run_p95=0.2 + 0.06 * math.sin(n / 4), run_p99=0.42 + 0.1 * math.sin(n / 3), lag_p50=0.004,
        lag_p95=0.02 + 0.01 * math.sin(n / 6), lag_p99=0.05 + 0.02 * math.sin(n / 6),
    )
    for n in range(60)
)  # fmt: skip
INCIDENT = incidents.IncidentRow(
    id=ID[:-2] + "11", trouble=Trouble.CRASH, words="crash", summary=f"a worker ended by SIGKILL {NASTY}", at=ago(200),
    last_at=ago(12), count=3, host="web-1", worker="web-1:411:3", supervisor="web-1:400", pid=411, more_jobs=2,
    jobs=(incidents.InvolvedSeen(job=ID, task="shop.report", fence=2, attempt=1, progress="42 of 120", state=State.DEAD),),
)  # fmt: skip
EXAMPLES = tuple(
    alerts.ExampleSeen(kind=kind, id=which, says=NASTY)
    for kind, which in (
        ("job", ID),
        ("worker", "web-1:411:3"),
        ("incident", ID),
        ("schedule", "nightly"),
        ("objective", NASTY),
        ("disk", NASTY),
    )
)


def alert(number: int = 1, **changed: Any) -> alerts.AlertRow:
    given = dict(
        id=f"{number:012x}", rule="dead_letters", check=Check.DEAD_LETTERS, subject="send_email", severity=Severity.CRITICAL,
        state=AlertState.FIRING, says=f"37 jobs of send_email died {NASTY}", since=ago(4), value=37.0, count=37, examples=EXAMPLES,
        fired_at=ago(4), told_at=ago(4), resolved_at=None, acknowledged_at=None, acknowledged_by=None, silenced=False,
        untold=False, held=None, held_until=None,
    )  # fmt: skip
    return alerts.AlertRow(**{**given, **changed})


ALERTS = (
    alert(),
    alert(2, rule=NASTY, subject=NASTY, severity=Severity.WARNING, examples=(), count=1, acknowledged_at=ago(1), acknowledged_by=NASTY),
    alert(3, check=Check.QUEUE_AGE, state=AlertState.PENDING, silenced=True, fired_at=None, told_at=None),
    alert(4, check=Check.QUEUE_AGE, subject="mail", told_at=None, untold=True),
    alert(5, check=Check.QUEUE_AGE, subject="q5", untold=True, held=Held.COOL_DOWN, held_until=ago(-5)),
    alert(6, check=Check.QUEUE_AGE, subject="q6", told_at=None, untold=True, held=Held.QUIET_HOURS, held_until=ago(-5)),
    alert(7, check=Check.QUEUE_AGE, subject="q7", told_at=None, untold=True, held=Held.QUIET_HOURS, held_until=ago(5)),
)  # fmt: skip
UNDELIVERED = (
    alerts.UndeliveredSeen(channel=NASTY, job=ID, state=State.DEAD, final=True),
    alerts.UndeliveredSeen(channel="boss", job=ID, state=State.SCHEDULED, final=False),
)
RULES = tuple(
    alerts.RuleSeen(
        name=name, check=check, above=above, unit=unit, over=300.0, at_least=10, queue="mail" if changed else None, task=None,
        schedule=None, hold=30.0, severity=Severity.WARNING, channels=("ops", NASTY) if changed else None, cool_down=300.0,
        repeat=None, enabled=not changed, looks_back=unit == "share", needs_enough=unit == "share", changed=changed, added=name == "burn",
    )
    for name, check, above, unit, changed in (
        ("queue_age", Check.QUEUE_AGE, 300.0, "seconds", False), (NASTY, Check.FAILURE_RATE, 0.5, "share", True),
        ("dead_letters", Check.DEAD_LETTERS, 0.0, "number", False), ("burn", Check.BUDGET_BURN, 14.4, "factor", False),
        ("not_durable", Check.NOT_DURABLE, None, "nothing", False), ("long", Check.JOB_TOO_LONG, None, "seconds", False),
    )
)  # fmt: skip
OBJECTIVES = tuple(
    objectives.ObjectiveSeen(
        name=name, promise=NASTY, target=0.999, task=None if queue else "shop.send_email", queue=queue, start_within=within, over=28, good=good,
        bad=bad, share=good / (good + bad) if good else None, budget_left=left, kept=left >= 0, burn_fast=2.5, burn_slow=0.0,
        burns=tuple(objectives.BurnSeen(over=over, rate=rate) for over, rate in ((300.0, 21.0), (3600.0, 2.5), (21600.0, 0.0))),
    )
    for name, queue, within, good, bad, left in (("mails", None, 60.0, 99_950, 50, 0.5), (NASTY, NASTY, None, 90, 10, -99.0), ("new", "web", 5.0, 0, 0, 1.0))
)  # fmt: skip
FIRE = schedules.FireSeen(
    schedule="nightly", planned=ago(50), decision=Decision.FIRED, cause=FireCause.RULE, count=1, until=None, decided_at=ago(50), why=None, job=ID
)  # fmt: skip


def planned(name: str = "nightly", **changed: Any) -> schedules.ScheduleRow:
    given = dict(
        name=name, state="active", words="every day at 02:00 in Asia/Taipei", task="shop.nightly", queue="default",
        next_at=ago(-400), zone="Asia/Taipei", last=FIRE, failing=False, paused_at=None, paused_why=None, app="shop",
    )  # fmt: skip
    return schedules.ScheduleRow(**{**given, **changed})


SCHEDULES = (
    planned(),
    planned("hourly-digest", words="every hour, on the hour", next_at=ago(-10), failing=True),
    planned("import", state="paused", paused_at=ago(80), paused_why=NASTY, next_at=None),
    planned(NASTY, state="unreadable", problem="made by a later release", task=None, queue=None, last=None),
)
QUEUES = tuple(
    queues.QueueRow(
        name=name, paused_at=ago(20) if name == "images" else None, closed_until=None, oldest_age=age, workers=2,
        states={"ready": ready, "running": 3, "dead": died, "scheduled": 14}, places=8, busy=busy, points=POINTS,
        limits=("at most 2 of shop.report at a time",),
    )
    for name, age, ready, died, busy in (("default", 0.3, 4, 0, 3), ("images", 1204.0, 912, 0, 0), ("mail", 0.1, 0, 37, 8))
)  # fmt: skip
SHORT_QUEUES = tuple(
    overview.QueueShort(name=name, paused_at=paused, ready=4, busy=1, oldest_age=0.3, completed=(1, 2, 3))
    for name, paused in (("mail", None), (NASTY, NOW))
)
WORKERS = tuple(
    workers.WorkerRow(
        id=f"web-{n}:41{n}:3", supervisor=f"web-{n}:400", host=f"web-{n}", pid=410 + n, concurrency=8, lease=15.0,
        queues=None if n == 1 else ("mail", NASTY), started_at=ago(300 * n), beat_age=1.2 if n < 3 else 40.0, live=n < 3,
        condemned=False, held=1, running=2 * n,
        vitals=Vitals(memory=96_000_000 * n, running=2, slots=8, lag=0.002, pulse_age=0.4, done=4211),
    )
    for n in (1, 2, 3)
)  # fmt: skip
ORDERS = (
    workers.OrderSeen(id="3", what="drain", taken=True, refused=NASTY),
    workers.OrderSeen(id="2", what="recycle", taken=True, refused=None),
    workers.OrderSeen(id="1", what="dump", taken=False, refused=None),
    workers.OrderSeen(id="0", what="of another release", taken=False, refused=None),
)
LOCK = locks.LockSeen(
    name=NASTY, places=2, session=None, waiting=1, last_token=9,
    holders=(locks.HolderSeen(owner=f"job {ID}", token=9, since=ago(1), until=ago(-1)),),
)  # fmt: skip
VALUE = fields.ValueSeen(
    value={"to": "a@example", "lines": [1, 2.5, None, True], "note": NASTY, "none": {}}, size=99
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "shop.py", line 14, in send_email\n    raise ValueError(to)\n'
)
JOB = job.JobSeen(
    **asdict(row()) | {"error": f"ValueError: {NASTY}", "result": VALUE, "planned_at": ago(9)}, now=NOW, payload_size=90_100, version=2, crashes=1, group=0, after=ID, start_by=ago(1), on_late=OnLate.RUN,
    metadata={"trace": NASTY}, args={"mail": VALUE, "password": fields.ValueSeen(secret=True), "big": fields.ValueSeen(
        beginning="[1, 2, 3", size=90_000)}, args_problem=None, result_until=ago(-60),
    attempts=tuple(
        job.AttemptSeen(
            fence=n, worker="web-1:411:3", started=True, started_at=ago(30 - n), ended_at=ago(29.9 - n), took=6.25, how=how,
            error=f"ValueError: {NASTY}", traceback=fields.TextSeen(text=TRACEBACK + NASTY, size=999_999, cut=True),
            log=fields.TextSeen(text="INFO sending\nERROR no address\n", size=30),
        )
        for n, how in ((1, "retry"), (2, "vanished"), (3, "die"))
    )
    + tuple(
        job.AttemptSeen(
            fence=n, worker="", started=True, started_at=ago(9), ended_at=ago(8), took=None, how=how, error=None,
            traceback=None, log=None, folded=number,
        )
        for n, how, number in ((4, "retry", 20), (5, "snooze", 2880))
    ),
    timeline=tuple(
        job.Station(at=ago(30 - n), what=what, detail=NASTY if what == "die" else None)
        for n, what in enumerate(("enqueued", "started", "retry", "started", "die", "dead", "of_a_later_release"))
    ),
    why=job.WhySeen(cause="dead", says=f"It failed for good {NASTY}", remedy="`standfast jobs retry`", notes=(NASTY,), text=""),
    cursors=(fields.CursorSeen(name="rows", version=1, done=42, value=VALUE),),
    steps=(fields.StepSeen(name="charge", version=1, value=VALUE),),
    waits=(fields.WaitSeen(name="paid", number=1, until=ago(-9), how=None, value=VALUE),),
    signals=(fields.SignalSeen(name=NASTY, sent_at=ago(2), taken=False, value=VALUE),),
    files=(fields.FileSeen(name="a.csv", size=9000, sha256="ab", saved_at=ago(2), place="store"),), unreadable=(NASTY,),
    locks=(LOCK,), incident_rows=(INCIDENT,), forgotten_incidents=("0f0f0f0f",), edited_from=ID,
    can=("jobs.retry", "jobs.edit_and_retry", "jobs.clone", "jobs.discard", "jobs.reschedule", "jobs.signal", "jobs.cancel"),
)  # fmt: skip
TASK = tasks.TaskSeen(
    name="shop.send_email", queue="mail", about=f"Send a letter. {NASTY}", max_attempts=5, timeout=30.0, seen_at=ago(1),
    retry_on=None, discard_on=("KeyError",), start_within=60.0, on_late="run", keep_result=None, memory=None, tags=("a",),
    app="shop", release=NASTY, current=False, version=1, priority=0, backoff="1 s, doubling", isolation="none",
    schedules=("nightly",), limits=("at most 2 at a time",), gates=(), windows=(NASTY,),
    parameters=(tasks.ParameterSeen(name="to", required=True, secret=True, type="str"),),
)  # fmt: skip
ENTRY = audit.EntrySeen(
    at=ago(2), who="ann", what="jobs.retry", asked={"id": NASTY, "confirm": "c0ffee"}, before="2026-11-16T10:00:00+00:00", after=NASTY, error=None, by="page"
)  # fmt: skip
VERDICT = overview.VerdictSeen(
    level=overview.Level.ATTENTION,
    sentence="Attention",
    findings=(
        overview.Finding(code="died", severity=overview.Level.ATTENTION, params={"count": 37, "more": ""}, sentence="", href="/dead"),
        overview.Finding(code="queue_paused", severity=overview.Level.ATTENTION, params={"queue": "images", "age": 1204.0},
                         sentence="", href="/queues/images"),
        overview.Finding(code="of_a_later_release", severity=overview.Level.TROUBLE, params={}, sentence=NASTY, href="/"),
    ),
)  # fmt: skip
WELL = overview.VerdictSeen(level=overview.Level.WELL, sentence="All well", findings=())
COUNTS = {
    "ready": 916,
    "running": 9,
    "held": 2,
    "scheduled": 1204,
    "blocked": 1,
    "dead": 37,
    "completed": 4_211_402,
}

FULL: dict[str, Any] = {
    "overview.show": overview.OverviewSeen(
        now=NOW, verdict=VERDICT, workers_live=2, workers_total=3, counts=COUNTS, oldest_due_age=1204.0, per_minute=61.0,
        failures=(row(), row(id=ID[:-2] + "ff", task=NASTY)), schedules=SCHEDULES[:2], incidents=(INCIDENT,), store_took=0.002, queues=SHORT_QUEUES, alerts=(ALERTS[3], *3 * ALERTS[:2]),
    ),
    "figures.show": figures.FiguresSeen(
        now=NOW, span="1h", step=60.0, points=POINTS, completed=2400, failed=15, dead=1,
        tasks=(figures.TaskTotals(task="shop.send_email", completed=2000, failed=14, dead=1, run_p50=0.02, run_p95=0.3),),
    ),
    "jobs.list": job_search.JobsSeen(now=NOW, rows=ROWS, next=ID, span=50_000, tasks=("shop.report",), queues=("mail", NASTY)),
    "jobs.show": JOB,
    "jobs.count": job_search.JobsCounted(count=512, more=True, span=50_000, confirm="c0ffee"),
    "jobs.export": job_search.JobsExported(name="jobs.csv", type="text/csv", limit=9, span=None, parts=Parts("id\n", "1\n")),
    "dead.groups": bulk_jobs.DeadSeen(
        now=NOW, looked_at=37, total=40, span=50_000,
        groups=(bulk_jobs.DeadGroup(fingerprint="f00d", error=NASTY, shape="<…>", count=36, tasks=("shop.send_email",), queues=("mail",),
                               first=ago(90), last=ago(3), example=ID),),
    ),
    "queues.list": queues.QueuesSeen(now=NOW, queues=QUEUES),
    "queues.show": queues.QueueSeen(now=NOW, **asdict(QUEUES[1]), served_by=("web-1:411:3",), running=(RUNNING,), windows=("nights",)),
    "schedules.list": schedules.SchedulesSeen(now=NOW, idle=True, schedules=SCHEDULES),
    "schedules.show": schedules.ScheduleSeen(
        **asdict(SCHEDULES[2]), now=NOW, idle=False, counting="2026.12", retired_at=None, start_within=60.0, on_late=OnLate.RUN, rule={"rule": "cron", "expression": "0 2 * * *"}, created_at=ago(9000), release="2026.11",
        next=(schedules.UpcomingSeen(schedule="nightly", planned=ago(-400), run_at=ago(-400), excluded="holiday"),),
        fires=(FIRE, schedules.FireSeen(schedule="nightly", planned=ago(90), decision=Decision.MISSED, cause=FireCause.TRIGGER, count=4,
                                        until=ago(60), decided_at=ago(50), why=NASTY, job=None)),
        runs=(schedules.RunSeen(job=ID, planned=ago(50), state=State.RUNNING),), waiting=(ago(1),), args={"day": VALUE},
        args_problem=None, version=1, priority=0, max_attempts=5, tags=("a",), metadata={"b": NASTY},
    ),
    "workers.list": workers.WorkersSeen(now=NOW, workers=WORKERS),
    "workers.show": workers.WorkerSeen(**asdict(WORKERS[1]), now=NOW, jobs=(RUNNING,), pictures=(ID,), orders=ORDERS),
    "tasks.list": tasks.TasksSeen(tasks=(TASK,)),
    "locks.list": locks.LocksSeen(now=NOW, locks=(LOCK,)),
    "alerts.list": alerts.AlertsSeen(
        now=NOW, living=True, watched=True, alerts=ALERTS,
        silences=(alerts.SilenceSeen(id="5f", rule=None, subject=NASTY, until=ago(-90), why=NASTY, by="ann"),
                  alerts.SilenceSeen(id="60", rule="queue_age", subject=None, until=ago(-9), why="", by="")),
        channels=("ops", NASTY),
    ),
    "alerts.history": alerts.HistorySeen(
        now=NOW, next=ID,
        rows=tuple(alerts.NoticeRow(id=f"n{kind}", kind=kind, at=ago(4), rule=NASTY, severity=Severity.WARNING, title=NASTY,
                                    alerts=ALERTS[:1], more=2, undelivered=UNDELIVERED) for kind in NoticeKind),
    ),
    "rules.list": alerts.RulesSeen(now=NOW, rules=RULES),
    "objectives.list": objectives.ObjectivesSeen(now=NOW, objectives=OBJECTIVES),
    "incidents.list": incidents.IncidentsSeen(now=NOW, rows=(INCIDENT,), next=ID, total=9),
    "incidents.show": incidents.IncidentSeen(
        **asdict(INCIDENT), now=NOW, folder="/var/lib/standfast/1", evidence={"stacks": fields.TextSeen(text=NASTY, size=44, cut=True)}
    ),
    "audit.list": audit.AuditSeen(entries=(ENTRY,), next="3"),
    "settings.show": settings.SettingsSeen(
        settings=(settings.SettingSeen(name="url", value=NASTY, where="code"),
                  settings.SettingSeen(name="keep_incidents_for", value="2592000.0", where="default", unit="seconds"),
                  settings.SettingSeen(name="files_limit", value="1000000000", where="default", unit="bytes"),
                  settings.SettingSeen(name="keep_incidents_mb", value="200", where="default", unit="megabytes")),
        store="sqlite:///shop.db", version="0.1.0", read_only=False,
    ),
}  # fmt: skip
EMPTY: dict[str, Any] = FULL | {
    "overview.show": overview.OverviewSeen(
        now=NOW, verdict=WELL, workers_live=0, workers_total=0, counts={}, oldest_due_age=None, per_minute=None, failures=(),
        schedules=(), incidents=(), store_took=0.0,
    ),
    "figures.show": figures.FiguresSeen(now=NOW, span="1h", step=60.0, points=(), tasks=()),
    "jobs.list": job_search.JobsSeen(now=NOW, rows=()),
    "jobs.count": job_search.JobsCounted(count=0, more=False, span=None, confirm=""),
    "dead.groups": bulk_jobs.DeadSeen(now=NOW, groups=(), looked_at=0, total=0, span=50_000),
    "queues.list": queues.QueuesSeen(now=NOW, queues=()),
    "schedules.list": schedules.SchedulesSeen(now=NOW, idle=True, schedules=()),
    "workers.list": workers.WorkersSeen(now=NOW, workers=()),
    "tasks.list": tasks.TasksSeen(tasks=()),
    "locks.list": locks.LocksSeen(now=NOW, locks=()),
    "alerts.list": alerts.AlertsSeen(now=NOW, living=False, watched=False, alerts=(), silences=(), channels=()),
    "alerts.history": alerts.HistorySeen(now=NOW, rows=(), next=None),
    "rules.list": alerts.RulesSeen(now=NOW, rules=()),
    "objectives.list": objectives.ObjectivesSeen(now=NOW, objectives=()),
    "incidents.list": incidents.IncidentsSeen(now=NOW, rows=(), next=None, total=0),
    "audit.list": audit.AuditSeen(entries=()),
}  # fmt: skip

READS: Mapping[str, type] = {
    "overview.show": fields.NothingAsked, "figures.show": figures.FiguresAsked, "jobs.list": job_search.JobsAsked,
    "jobs.show": job.WhichJob, "jobs.count": job_search.CountAsked, "jobs.export": job_search.ExportAsked, "dead.groups": bulk_jobs.DeadAsked,
    "queues.list": fields.NothingAsked, "queues.show": fields.Named, "schedules.list": fields.NothingAsked,
    "schedules.show": fields.Named, "workers.list": fields.NothingAsked, "workers.show": fields.WithId,
    "tasks.list": fields.NothingAsked, "locks.list": fields.NothingAsked, "incidents.list": incidents.IncidentsAsked,
    "alerts.list": alerts.AlertsAsked, "alerts.history": alerts.HistoryAsked, "rules.list": fields.NothingAsked,
    "objectives.list": fields.NothingAsked, "incidents.show": fields.WithId, "audit.list": audit.AuditAsked, "settings.show": fields.NothingAsked,
}  # fmt: skip
ACTS: dict[str, tuple[Role, type, Any]] = {
    "jobs.retry": (Role.OPERATOR, job.WhichJob, job.JobDone(id=ID, answer="requeued")),
    "jobs.cancel": (Role.OPERATOR, job.CancelAsked, job.JobDone(id=ID, answer="requested")),
    "jobs.reschedule": (Role.OPERATOR, job.RescheduleAsked, job.JobDone(id=ID, answer="rescheduled")),
    "jobs.signal": (Role.OPERATOR, job.SignalAsked, job.JobDone(id=ID, answer="sent")),
    "jobs.clone": (Role.OPERATOR, job.CloneAsked, job.JobDone(id=ID, answer="cloned", job="new")),
    "jobs.edit_and_retry": (Role.ADMIN, job.EditAsked, job.JobDone(id=ID, answer="edited", job="new")),
    "jobs.discard": (Role.ADMIN, job.WhichJob, job.JobDone(id=ID, answer="discarded")),
    "jobs.bulk": (Role.OPERATOR, job_search.BulkAsked, job_search.BulkDone(done=512, failed=0, passed_over=0)),
    "queues.pause": (Role.OPERATOR, fields.Named, queues.QueueDone(name="mail", paused_at=NOW, jobs=4, workers=1)),
    "queues.resume": (Role.OPERATOR, fields.Named, queues.QueueDone(name="mail", paused_at=None, jobs=4, workers=1)),
    "schedules.trigger": (Role.OPERATOR, fields.Named, schedules.ScheduleDone(name="nightly", state="active", job=ID)),
    "schedules.pause": (Role.OPERATOR, schedules.SchedulePauseAsked, schedules.ScheduleDone(name="nightly", state="paused")),
    "schedules.resume": (Role.OPERATOR, fields.Named, schedules.ScheduleDone(name="nightly", state="active")),
    "schedules.edit": (Role.ADMIN, schedules.ScheduleEditAsked, schedules.ScheduleDone(name="nightly", state="active")),
    "schedules.backfill": (Role.ADMIN, schedules.BackfillAsked, schedules.BackfillDone(name="nightly", state="active", since=NOW, until=NOW, count=3)),
    "schedules.delete": (Role.ADMIN, fields.Named, schedules.ScheduleDone(name="nightly", state="deleted")),
    "workers.recycle": (Role.OPERATOR, workers.RecycleAsked, workers.WorkerDone(id="w", order="1")),
    "workers.drain": (Role.ADMIN, fields.WithId, workers.WorkerDone(id="w", order="1")),
    "workers.dump": (Role.OPERATOR, workers.DumpAsked, workers.WorkerDone(id="w", order="1")),
    "locks.release": (Role.ADMIN, fields.Named, locks.LockDone(name="stock", released=())),
    "incidents.forget": (Role.ADMIN, fields.WithId, incidents.IncidentDone(id=ID)),
    "alerts.acknowledge": (Role.OPERATOR, fields.WithId, ALERTS[0]),
    "alerts.unacknowledge": (Role.OPERATOR, fields.WithId, ALERTS[0]),
    "alerts.silence": (Role.OPERATOR, alerts.SilenceAsked, alerts.SilenceSeen(id="5f", rule=None, subject=NASTY, until=NOW, why="", by="ann")),
    "alerts.unsilence": (Role.OPERATOR, fields.WithId, alerts.SilenceSeen(id="5f", rule=None, subject=NASTY, until=NOW, why="", by="ann")),
    "channels.test": (Role.OPERATOR, fields.Named, alerts.ChannelDone(name="ops", notice=ID, job=ID)),
    "rules.change": (Role.ADMIN, alerts.RuleChangeAsked, RULES[0]),
    "rules.off": (Role.ADMIN, fields.Named, RULES[0]),
    "rules.on": (Role.ADMIN, fields.Named, RULES[0]),
    "rules.reset": (Role.ADMIN, fields.Named, RULES[0]),
    "rules.add": (Role.ADMIN, alerts.RuleAddAsked, RULES[3]),
    "rules.remove": (Role.ADMIN, fields.Named, RULES[3]),
}  # fmt: skip

PATHS = (
    "/", "/jobs", "/jobs?state=dead&task=x", f"/jobs/{ID}", "/jobs/bulk?action=retry&state=dead", "/jobs/bulk?action=reschedule",
    "/dead", "/queues", "/queues/images", "/schedules", "/schedules/import", "/workers", "/workers/web-2:412:3", "/tasks",
    "/tasks/shop.send_email", "/locks", "/incidents", f"/incidents/{ID}", "/audit", "/settings",
    "/alerts", "/alerts/rules", "/objectives",
)  # fmt: skip


async def _never(_desk: Any, _asked: Any) -> Any:
    raise AssertionError("the desk of the samples answers by itself")


OPERATIONS: dict[str, Operation[Any, Any]] = {
    **{name: Operation(name, "", Role.VIEWER, False, "", kind, object, _never) for name, kind in READS.items()},
    **{name: Operation(name, "", role, True, "", kind, object, _never) for name, (role, kind, _) in ACTS.items()},
}


ANN = User("ann", Role.ADMIN)


@dataclass
class SampleDesk:
    """A desk at which everything is as in a sample; what is asked and done is kept."""

    answers: dict[str, Any]
    user: User = ANN
    asked: list[tuple[str, Any]] = field(default_factory=list)
    done: list[tuple[str, Any]] = field(default_factory=list)

    def may(self, operation: Operation[Any, Any]) -> bool:
        return self.user.may(operation.name, operation.role)

    async def read(self, operation: Operation[Any, Any], asked: Any) -> Any:
        self.asked.append((operation.name, asked))
        answer = self.answers[operation.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def act(self, operation: Operation[Any, Any], asked: Any) -> Any:
        if not self.may(operation):
            raise NotAllowedError(f"{operation.name} is not for you")
        self.done.append((operation.name, asked))
        return ACTS[operation.name][2]


def sample_app(desk: SampleDesk, **site: Any) -> Starlette:
    return Starlette(routes=routes(Site(OPERATIONS, lambda _: desk, **site)))
