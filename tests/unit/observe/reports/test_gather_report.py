"""What a report says is what is in the store, and of the span that it is about."""

from datetime import timedelta

import msgspec
import pytest
from happening import Happening

from standfast import Standfast
from standfast.admin.reports import make_report
from standfast.errors import ConfigurationError
from standfast.model.alerts import Notice, NoticeKind, Objective, Severity
from standfast.model.incidents import Incident, Trouble
from standfast.model.records import Decision, Fire, FireCause, Kind
from standfast.model.states import Move
from standfast.observe.catalogue import Catalogue, publish
from standfast.observe.incidents import write_incident
from standfast.stores.verb import run_procedure

HOUR = 3600


@pytest.fixture
def stage():
    happening = Happening()
    happening.work()
    return happening


def test_tasks_are_counted(stage):
    """By task, whatever the queue; what was only put aside again is no line."""
    stage.count(*[Move.COMPLETE] * 3, Move.RETRY, Move.DIE, seconds=0.5, late=2)
    stage.count(Move.COMPLETE, queue="slow", seconds=3, late=1)
    stage.count(Move.BLOCK, task="unknown", seconds=0)
    report = stage.report(hours=1)
    [send] = report.tasks
    assert (send.task, send.runs, send.completed, send.failed, send.dead) == ("send", 6, 4, 1, 1)
    assert (send.run_longest, send.lag_longest) == (timedelta(seconds=3), timedelta(seconds=2))
    assert report.total.completed == 4


def test_errors_of_one_shape_are_one_line(stage):
    """The most frequent first, with the newest as an example; those that died before the span are left out."""
    stage.die("an old one")
    stage.clock.advance(3 * HOUR)
    stage.die("host mail1.example.com refused 17")
    newest = stage.die("host mail1.example.com refused 18", task="print")
    stage.die("no such month")
    twice, once = stage.report(hours=2).deaths
    assert (twice.count, twice.tasks, twice.example) == (2, ("print", "send"), newest)
    assert twice.error == "OSError: host mail1.example.com refused 18"
    assert (once.count, once.error) == (1, "OSError: no such month")


def test_arguments_are_in_no_report(stage):
    """Whatever jobs were given."""
    stage.die("refused")
    assert b"4711" not in msgspec.json.encode(stage.report(hours=1))


def test_more_dead_jobs_than_are_looked_at(stage, monkeypatch):
    """It is said that some were not."""
    monkeypatch.setattr("standfast.admin.reports.MOST_DEAD", 2)
    monkeypatch.setattr("standfast.admin.reports._PAGE", 1)
    for _ in range(3):
        stage.die("refused")
    report = stage.report(hours=1)
    assert report.deaths[0].count == 2
    assert report.left_out == ("dead jobs beyond the newest 2",)


def test_more_errors_than_anybody_reads(stage, monkeypatch):
    """The most frequent have a line, and it is said that there are others."""
    monkeypatch.setattr("standfast.admin.reports.MOST_SHAPES", 1)
    for error in ("refused", "no such month", "no such month"):
        stage.die(error)
    report = stage.report(hours=1)
    assert [(line.count, line.error) for line in report.deaths] == [(2, "OSError: no such month")]
    assert report.left_out == ("errors beyond the 1 most frequent",)


def test_incidents(stage):
    """Those of the span; a picture that was asked for is none."""
    now = stage.clock.now()
    for name, trouble, last_at in (
        ("new", Trouble.CRASH, now),
        ("old", Trouble.CRASH, now - timedelta(days=2)),
        ("asked", Trouble.SNAPSHOT, now),
    ):
        first_at = last_at - timedelta(days=7)
        incident = Incident(
            id=name, trouble=trouble, summary=f"{name}\n!", at=first_at, last_at=last_at, count=2, host="web"
        )
        run_procedure(stage.backend.run, write_incident(stage.verbs, incident))
    [found] = stage.report(days=1).incidents
    assert (found.id, found.trouble, found.summary, found.count) == ("new", "crash", "new !", 2)
    assert (found.first_at, found.last_at) == (now - timedelta(days=7), now)


def test_schedules_that_missed_their_time(stage):
    """Rows of missed times count as many, and by their end; what was fired is none."""
    now, minute = stage.clock.now(), timedelta(minutes=1)
    fires = (
        Fire("nightly", now - 3 * minute, Decision.MISSED),
        Fire("nightly", now - timedelta(hours=3), Decision.MISSED, count=60, until=now - 50 * minute),
        Fire("nightly", now - timedelta(hours=9), Decision.MISSED),
        Fire("nightly", now - minute, Decision.FIRED),
    )
    stage.write(Kind.SCHEDULE, "nightly", b"{}", fires=fires)
    [found] = stage.report(hours=1).missed
    assert (found.schedule, found.count, found.made_up) == ("nightly", 61, 0)
    assert (found.first_at, found.last_at) == (now - timedelta(hours=3), now - 3 * minute)


def test_times_that_were_made_up_for(stage):
    """They were missed all the same, and the line says how many were; what a person asked for is none."""
    now, minute = stage.clock.now(), timedelta(minutes=1)
    fires = (
        Fire("nightly", now - 3 * minute, Decision.CAUGHT_UP),
        Fire("nightly", now - 9 * minute, Decision.MISSED, count=2, until=now - 5 * minute),
        Fire("nightly", now - 8 * minute, Decision.CAUGHT_UP, FireCause.BACKFILL),
    )
    stage.write(Kind.SCHEDULE, "nightly", b"{}", fires=fires)
    report = stage.report(hours=1)
    [found] = report.missed
    assert (found.count, found.made_up, found.last_at) == (3, 1, now - 3 * minute)
    assert not report.is_quiet


def test_objectives_and_apps(stage):
    """As the newest releases have published them."""
    goal = Objective(name="mail", target=0.5, task="send")
    run_procedure(
        stage.backend.run,
        publish(stage.verbs, Catalogue("shop", "1", stage.clock.now(), "web", "0", objectives=(goal,))),
    )
    stage.count(Move.COMPLETE, Move.DIE)
    report = stage.report(hours=1)
    assert report.apps == ("shop",)
    [standing] = report.standings
    assert (standing.objective, standing.good, standing.bad) == (goal, 1, 1)


def test_what_was_told(stage):
    """Notices of the span, the newest first; what cannot be read is passed over."""
    now = stage.clock.now()
    for name, at in (("a", now - timedelta(minutes=9)), ("b", now), ("old", now - timedelta(days=3))):
        notice = Notice(
            id=name, kind=NoticeKind.FIRING, at=at, rule="r", severity=Severity.WARNING, title=f"title {name}"
        )
        stage.write(Kind.NOTICE, name, msgspec.json.encode(notice))
    stage.write(Kind.NOTICE, "other", b"?")
    assert [each.title for each in stage.report(days=1).notices] == ["title b", "title a"]


@pytest.mark.parametrize("since", [0, 31 * 24 * HOUR, "a day", None])
def test_a_span_that_cannot_be(since):
    """It is refused before anything is read."""
    with pytest.raises(ConfigurationError, match="since must be a timedelta or seconds"):
        make_report(Standfast("memory://"), since)
