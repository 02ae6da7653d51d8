"""Alerts of silent workers, on every store: who beats no more is told, and who was given up is missed."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from alert_rounds import Stage
from conformance import Harness
from standfast.model.alerts import AlertRule, Check, NoticeKind, Severity
from standfast.model.crash import DeathKind
from standfast.observe.alerts.board_changes import note_missed
from standfast.observe.alerts.delivery import QUEUE
from standfast.stores.values import Vitals, WorkerBeat
from standfast.stores.verb import run_procedure

SILENT = AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=10)


def test_a_worker_that_beats_no_more_is_silent_and_then_back(harness: Harness) -> None:
    """It is critical where nobody else serves a queue of it."""
    stage = Stage(harness, SILENT)
    alone, other = harness.register(queues=("mail",)), harness.register(queues=("news",))
    harness.clock.advance(20)
    harness.beat(other)
    stage.round()
    [alert] = stage.board().firing
    assert (alert.subject, alert.severity) == (alone, Severity.CRITICAL)
    assert "is silent for 20 s; nobody else serves queue mail" in alert.says
    harness.beat(alone)
    stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.RESOLVED, NoticeKind.FIRING]
    assert "is back" in stage.history()[0].title


def test_a_second_outage_soon_after_the_first_was_over_is_told_within_a_minute_or_so(harness: Harness) -> None:
    """By the rules from the start."""
    stage = Stage(harness)
    worker = harness.register()
    for _ in range(2):
        harness.clock.advance(31)
        stage.round()
        harness.beat(worker)
        stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.RESOLVED, NoticeKind.FIRING]
    harness.clock.advance(31)
    stage.round()
    assert stage.history()[0].kind is NoticeKind.FIRING


def test_a_child_without_a_sign_of_life_is_silent_though_its_supervisor_beats(harness: Harness) -> None:
    stage = Stage(harness, SILENT)
    worker = harness.register()
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(pulse_age=12.0))]))
    stage.round()
    assert stage.firing().keys() == {"worker_silent"}
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(pulse_age=0.1))]))
    stage.round()
    assert stage.firing() == {}


def test_a_courier_that_went_down_with_its_supervisor_is_no_worker_that_people_miss(harness: Harness) -> None:
    stage = Stage(harness, SILENT)
    harness.register(queues=(QUEUE,))
    worker = harness.register(queues=("mail",))
    harness.clock.advance(12)
    harness.beat(worker)
    stage.round()
    assert stage.firing() == {}


def test_who_died_before_anybody_looked_is_not_called_silent(harness: Harness) -> None:
    """A fleet that comes back finds its dead; and who looks next leaves alone what another has found."""
    stage = Stage(harness, SILENT)
    harness.register()
    harness.clock.advance(3600)
    stage.began_at = harness.clock.now()
    stage.round()
    assert stage.firing() == {}
    stage.began_at -= timedelta(hours=2)
    stage.round()
    assert stage.firing().keys() == {"worker_silent"}
    stage.began_at = harness.clock.now()
    stage.round()
    assert stage.firing().keys() == {"worker_silent"}


ALWAYS, NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def give_up(harness: Harness, worker: str, watched_since: datetime = ALWAYS) -> None:
    """Let a worker be given up, as a supervisor does whose beats tell that it is lost."""
    [lost] = (each for each in harness.run(harness.verbs.workers()) if each.info.id == worker)
    run_procedure(harness.backend.run, note_missed(harness.verbs, lost, watched_since))
    harness.bury(worker, DeathKind.VANISHED)


def test_who_was_given_up_before_it_counts_as_silent_is_missed_until_somebody_serves_its_queue(
    harness: Harness,
) -> None:
    """That its row is gone is no reason to say that all is well."""
    stage = Stage(harness, replace(SILENT, above=30))
    alone, other = harness.register(queues=("mail", "news")), harness.register(queues=("news",))
    give_up(harness, alone)
    harness.beat(other)
    stage.round()
    assert stage.firing() == {}
    for _ in range(30):
        harness.clock.advance(12)
        harness.beat(other)
        stage.round()
    [alert] = stage.board().firing
    assert (alert.subject, alert.severity) == (alone, Severity.CRITICAL)
    assert "nobody else serves queue mail" in alert.says
    assert [notice.kind for notice in stage.history()] == [NoticeKind.FIRING]
    harness.register(queues=("mail",))
    stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.RESOLVED, NoticeKind.FIRING]
    assert "is gone, and what it had was given back; others serve its queues" in stage.history()[0].title
    assert stage.board().missed == ()


@pytest.mark.parametrize("watched_since", [ALWAYS, NEVER])
def test_who_was_given_up_by_one_that_was_there_is_told_by_who_came_later(
    harness: Harness, watched_since: datetime
) -> None:
    """And not who was given up by one that was not; also if that one came to it second."""
    stage = Stage(harness, replace(SILENT, above=30))
    gone = harness.register(queues=("mail",))
    harness.clock.advance(12)
    [lost] = harness.run(harness.verbs.workers())
    run_procedure(harness.backend.run, note_missed(harness.verbs, lost, watched_since))
    give_up(harness, gone, NEVER)
    stage.began_at = harness.clock.now()
    harness.clock.advance(20)
    stage.round()
    assert [alert.subject for alert in stage.board().firing] == ([gone] if watched_since == ALWAYS else [])


def test_who_was_given_up_while_others_serve_its_queues_is_told_once_as_a_warning(harness: Harness) -> None:
    stage = Stage(harness, replace(SILENT, above=30, cool_down=0.0))
    gone, other = harness.register(), harness.register()
    give_up(harness, gone)
    for _ in range(10):
        harness.clock.advance(12)
        harness.beat(other)
        stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.RESOLVED, NoticeKind.FIRING]
    assert stage.history()[0].severity is Severity.WARNING
    assert stage.board().missed == ()


def test_who_stopped_properly_is_not_missed(harness: Harness) -> None:
    """Also if it was silent for a while before."""
    stage = Stage(harness, SILENT)
    worker = harness.register(queues=("mail",))
    harness.clock.advance(12)
    stage.round()
    assert stage.firing().keys() == {"worker_silent"}
    harness.bury(worker, DeathKind.STOPPED)
    stage.round()
    assert stage.firing() == {}


def test_whose_work_nobody_wants_to_do_is_missed_for_a_day(harness: Harness) -> None:
    stage = Stage(harness, SILENT)
    worker = harness.register(queues=("mail",))
    harness.clock.advance(20)
    give_up(harness, worker)
    stage.round()
    harness.clock.advance(86_000)
    stage.round()
    assert stage.firing().keys() == {"worker_silent"}
    harness.clock.advance(400)
    stage.round()
    stage.round()
    assert stage.firing() == {}
