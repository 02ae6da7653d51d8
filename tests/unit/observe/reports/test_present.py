"""A report says what is wrong at the moment, and of what Standfast runs itself only whether people were reached."""

from datetime import timedelta

import msgspec
from happening import LEASE, Happening

from standfast.admin.reports import REPORT
from standfast.model.alerts import Alert, AlertState, Check, Example, Severity
from standfast.model.ids import new_job_id
from standfast.model.job import CHANNEL_KEY, NewJob
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.alerts.board import NAME, Board
from standfast.observe.alerts.delivery import DELIVER, QUEUE
from standfast.observe.reports.report import Present
from standfast.schedules.closed_hours import About, ClosedHours
from standfast.schedules.windows import Window

MINUTES = 60


class Now(Happening):
    """A store in which something may be wrong."""

    def __init__(self, *queues: str) -> None:
        super().__init__()
        if queues:
            self.work(*queues)

    def wait(self, queue: str, number: int = 1) -> None:
        """Let jobs of a queue be due from now on."""
        jobs = [NewJob(new_job_id(), "send", queue=queue, payload=b"{}") for _ in range(number)]
        self.backend.run(self.verbs.enqueue(jobs))

    def alert(self, subject: str, state: AlertState = AlertState.FIRING, **more) -> Alert:
        return Alert(
            id=f"id-{subject}",
            rule="queue_age",
            check=Check.QUEUE_AGE,
            subject=subject,
            severity=more.pop("severity", Severity.WARNING),
            state=state,
            says=f"queue {subject}:\nwaits",
            since=self.clock.now(),
            examples=(Example("job", "4711"),),
            **more,
        )

    def tell(self, *alerts: Alert) -> None:
        self.write(Kind.BOARD, NAME, msgspec.json.encode(Board(alerts=alerts)))

    @property
    def now(self) -> Present:
        return self.report(hours=1).now


def test_nothing_is_wrong():
    """A worker lives, and what waits has not waited for long."""
    stage = Now("mail")
    stage.wait("mail")
    stage.clock.advance(4 * MINUTES)
    assert stage.now == Present(workers=1)
    assert stage.now.is_well


def test_no_worker_lives():
    """Nobody is registered, or all are silent for longer than their lease; who only delivers is no worker."""
    assert Now().now == Present(workers=0)
    assert Now(QUEUE).now == Present(workers=0)
    stage = Now("mail")
    stage.clock.advance(LEASE.total_seconds() + 1)
    assert stage.now == Present(workers=0)
    assert not stage.now.is_well


def test_alerts_that_fire():
    """Critical ones first; what is about to fire, or is over, is not wrong now."""
    stage = Now("mail")
    at = stage.clock.now()
    stage.tell(
        stage.alert("a"),
        stage.alert("b", told_at=at),
        stage.alert("c", told_at=at, acknowledged_at=at, acknowledged_by="Ada"),
        stage.alert("d", silenced=True),
        stage.alert("e", severity=Severity.CRITICAL, told_at=at),
        stage.alert("pending", AlertState.PENDING),
        stage.alert("over", AlertState.RESOLVED),
    )
    alerts = stage.now.alerts
    assert [(each.subject, each.heard) for each in alerts] == [
        ("e", "told"),
        ("a", "not told yet"),
        ("b", "told"),
        ("c", "acknowledged"),
        ("d", "silenced"),
    ]
    assert (alerts[1].rule, alerts[1].since, alerts[1].says) == ("queue_age", at, "queue a: waits")
    told = msgspec.json.encode(alerts)
    assert b"Ada" not in told
    assert b"4711" not in told


def test_a_queue_that_nobody_serves():
    """It is told at once, with how many are due, the oldest queue first; what is served may wait for a while."""
    stage = Now("default")
    stage.wait("print", 3)
    stage.clock.advance(10)
    stage.wait("mail")
    stage.wait("default")
    stage.clock.advance(2)
    found = [(each.queue, each.due, each.waits.total_seconds(), each.is_served) for each in stage.now.queues]
    assert found == [("print", 3, 12, False), ("mail", 1, 2, False)]


def test_a_queue_that_waits_for_long():
    """Though it is served; deliveries too, which others than workers may make."""
    stage = Now("mail")
    stage.wait("mail", 2)
    stage.wait(QUEUE)
    stage.clock.advance(MINUTES)
    assert stage.now.queues == ()
    stage.clock.advance(5 * MINUTES)
    found = sorted((each.due, each.queue, each.is_served) for each in stage.now.queues)
    assert found == [(1, QUEUE, True), (2, "mail", True)]


def test_a_queue_that_is_paused():
    """It is told when it waits for long, as it may have been forgotten."""
    stage = Now("default")
    stage.wait("mail")
    stage.backend.run(stage.verbs.pause("mail"))
    stage.clock.advance(MINUTES)
    assert stage.now.is_well
    stage.clock.advance(5 * MINUTES)
    [line] = stage.now.queues
    assert line.paused_at is not None


def test_a_queue_that_is_closed():
    """It waits as it should until its window ends."""
    stage = Now("default")
    stage.wait("mail")
    hour = timedelta(hours=1)
    begin, end = (f"{stage.clock.now() + each:%H:%M}" for each in (-hour, hour))
    hours = ClosedHours(About.QUEUE, "mail", (Window(begin, end),))
    stage.write(Kind.WINDOW, "queue:mail@shop", msgspec.json.encode(hours))
    stage.clock.advance(50 * MINUTES)
    assert stage.now.is_well
    stage.clock.advance(15 * MINUTES)
    assert [each.queue for each in stage.now.queues] == ["mail"]


def test_deliveries_and_reports_are_no_work():
    """They are in no line of tasks and no total; how many arrived, are lost and to be sent is told, and why."""
    stage = Now("mail", QUEUE)
    stage.count(Move.COMPLETE, task="send")
    stage.count(
        *[Move.COMPLETE] * 3, Move.RETRY, Move.DIE, Move.CANCEL, task=DELIVER, queue=QUEUE, seconds=9, late=9
    )
    stage.count(Move.COMPLETE, Move.DIE, task=REPORT, queue="reports", seconds=9)
    for channel in ("ops", "desk", "ops"):
        stage.die("no such channel", DELIVER, QUEUE, metadata={CHANNEL_KEY: channel})
    stage.die("no figures", REPORT)
    stage.wait(QUEUE, 2)
    report = stage.report(hours=1)
    assert [line.task for line in report.tasks] == ["send"]
    assert (report.total.completed, report.total.dead, report.total.runs) == (1, 0, 1)
    told = report.deliveries
    assert (told.delivered, told.lost, told.waiting) == (3, 3, 2)
    assert told.lost_in == ("desk", "ops")
    assert [line.error for line in report.deaths] == ["OSError: no such channel", "OSError: no figures"]
