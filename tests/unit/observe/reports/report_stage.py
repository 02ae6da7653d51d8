"""A report that has something of everything, one of nothing, and one of the worst day."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from standfast.model.alerts import NoticeKind, Objective, Severity
from standfast.observe.burn_rates import Standing
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

NOW = datetime(2026, 3, 5, 6, 0, 30, tzinfo=UTC)
EVIL = "=HYPERLINK(\"http://x\")<script>alert('1')</script>"
JOB = "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f"
NOTHING = TaskLine("", 0, 0, 0, 0, 0, None, None, None, None, None, None)


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


SEND = TaskLine("send", 1300, 1200, 60, 40, 3, ms(20), ms(90), ms(1500), ms(2), ms(40), ms(61_000))
PRINT = TaskLine("print", 1, 1, 0, 0, 0, ms(5000), ms(5000), ms(5000), ms(1), ms(1), ms(1))
WELL = Present(workers=1)
QUIET = Report(NOW - timedelta(days=1), NOW, (), WELL, NOTHING)
LONG_SAYS = "queue mail: its oldest due job waits for 2 h 5 min; no living worker serves it"
WRONG = Present(
    workers=0,
    alerts=(
        AlertLine("queue_age", "mail", Severity.WARNING, NOW - timedelta(hours=2), LONG_SAYS, "told"),
        AlertLine("incident", EVIL, Severity.WARNING, NOW - timedelta(hours=1), EVIL, "not told yet"),
    ),
    queues=(
        QueueLine(
            queue="mail",
            oldest_due_at=NOW - timedelta(hours=2),
            waits=timedelta(hours=2),
            due=1340,
            is_served=False,
        ),
    ),
)
FULL = Report(
    since=NOW - timedelta(days=1),
    until=NOW,
    apps=("shop",),
    now=WRONG,
    total=TaskLine("", 1301, 1201, 60, 40, 3, ms(20), ms(90), ms(5000), ms(2), ms(40), ms(61_000)),
    tasks=(SEND, PRINT),
    deaths=(DeathLine("abc", EVIL, 40, ("send",), NOW - timedelta(hours=2), NOW - timedelta(hours=1), JOB),),
    incidents=(IncidentLine(JOB, "crash", "its process exited", 2, "web-01", NOW - timedelta(hours=1), NOW),),
    missed=(MissedLine("nightly", 3, NOW - timedelta(hours=3), NOW, made_up=1),),
    standings=(
        Standing(Objective(name="mail", target=0.9, task="send"), 80, 20, {"5m": 2.0, "1h": 1.5}),
        Standing(Objective(name="soon", target=0.9, queue="mail", start_within=1.0), 99, 1),
    ),
    notices=(NoticeLine(NOW, NoticeKind.FIRING, Severity.CRITICAL, "worker-silent", "a worker is silent"),),
    deliveries=Deliveries(delivered=12, lost=1, waiting=2, lost_in=("ops",)),
    left_out=("dead jobs beyond the newest 10",),
)


def worst_with(text: str) -> Report:
    """Return all that a store may come to hold, with a text wherever there is one."""
    alerts = tuple(replace(each, rule=text, subject=text, says=text) for each in WRONG.alerts)
    queues = tuple(replace(each, queue=text) for each in WRONG.queues)
    return replace(
        FULL,
        apps=(text,) * 20,
        now=Present(workers=0, alerts=alerts * 100, queues=queues * 100),
        tasks=tuple(replace(SEND, task=f"{number} {text}") for number in range(500)),
        deaths=tuple(replace(each, error=text, tasks=(text,) * 20) for each in FULL.deaths * 200),
        incidents=tuple(replace(each, summary=text, host=text) for each in FULL.incidents * 500),
        missed=tuple(replace(each, schedule=text) for each in FULL.missed * 300),
        standings=FULL.standings[1:] * 100 + FULL.standings[:1],
        notices=tuple(replace(each, title=text, rule=text) for each in FULL.notices * 1000),
    )
