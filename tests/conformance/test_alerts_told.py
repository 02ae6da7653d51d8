"""Alerts on every store: whatever is told is told once, and people say what they like to hear."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from alert_rounds import EVERYTHING, Stage
from conformance import Harness
from standfast.errors import AlertNotFoundError, ConfigurationError
from standfast.model.alerts import AlertRule, Check, NoticeKind, Severity
from standfast.model.incidents import Incident, Trouble
from standfast.model.records import Kind
from standfast.observe.alerts.board_changes import (
    KEPT,
    acknowledge,
    add_silence,
    amend_rule,
    effective_rules,
    end_silence,
    forget_old_notices,
    unacknowledge,
)
from standfast.observe.alerts.monitor import LocalView
from standfast.observe.incidents import write_incident
from standfast.stores.verb import run_procedure


def test_of_many_who_look_at_once_one_tells(harness: Harness) -> None:
    """However they meet."""
    stage = Stage(harness)
    harness.enqueue(queue="mail")
    harness.clock.advance(400)
    with ThreadPoolExecutor(5) as pool:
        made = list(pool.map(stage.round, [stage.another() for _ in range(5)]))
    assert sum(len(each.notices) for each in made) == 1
    assert len(stage.history()) == 1
    assert len(stage.deliveries()) == 1


def test_who_dies_between_steps_loses_nothing_and_repeats_nothing(harness: Harness) -> None:
    """After each call of a round somebody else makes one: the notice is there once, with its delivery."""
    for step in range(1, 20):
        stage = Stage(harness, AlertRule(name=f"rule {step}", check=Check.QUEUE_AGE, above=100, queue=f"q{step}"))
        harness.enqueue(queue=f"q{step}")
        harness.clock.advance(101)
        steps = stage.keeper.round(harness.verbs, EVERYTHING, LocalView(stage.began_at)).steps
        try:
            verb = next(steps)
            for _ in range(step):
                verb = steps.send(harness.run(verb))
        except StopIteration:
            break
        finally:
            steps.close()
        stage.round(stage.another())
        told = [notice for notice in stage.history() if notice.rule == f"rule {step}"]
        assert len(told) == 1, step
        assert len([job for job in stage.deliveries() if job.metadata["notice"] == told[0].id]) == 1, step
    assert step > 8


def test_people_acknowledge_silence_and_change_rules(harness: Harness) -> None:
    stage = Stage(harness)
    harness.enqueue(queue="mail")
    harness.clock.advance(400)
    silence = stage.run(add_silence(harness.verbs, "queue_age", "mail", timedelta(hours=1), why="known", by="ann"))
    stage.round()
    [alert] = stage.board().firing
    assert (alert.silenced, stage.history()) == (True, [])
    stage.run(acknowledge(harness.verbs, alert.id[-8:], "ann"))
    stage.round()
    assert stage.board().firing[0].acknowledged_by == "ann"
    stage.run(end_silence(harness.verbs, silence.id))
    stage.round()
    assert (stage.firing().keys(), stage.history()) == ({"queue_age"}, []), "somebody looks after it"
    changed = AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=1000)
    stage.run(amend_rule(harness.verbs, "queue_age", lambda _: changed))
    stage.round()
    assert stage.firing() == {}
    stage.run(amend_rule(harness.verbs, "queue_age", lambda _: None))
    stage.round()
    assert stage.firing().keys() == {"queue_age"}


def test_who_takes_an_acknowledgement_back_lets_people_be_told(harness: Harness) -> None:
    """At once of what they have not heard of, else in its turn. To take back what nobody said changes nothing."""
    stage = Stage(harness, AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=300, repeat=3600))
    silence = stage.run(add_silence(harness.verbs, "queue_age", None, timedelta(hours=1)))
    harness.enqueue(queue="mail")
    harness.clock.advance(400)
    stage.round()
    [alert] = stage.board().firing
    stage.run(acknowledge(harness.verbs, alert.id, "ann"))
    stage.run(end_silence(harness.verbs, silence.id))
    stage.round()
    assert stage.history() == []
    taken_back = stage.run(unacknowledge(harness.verbs, alert.id[-8:]))
    assert (taken_back.id, taken_back.acknowledged_at, taken_back.acknowledged_by) == (alert.id, None, None)
    stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.FIRING]
    before = stage.board()
    stage.run(unacknowledge(harness.verbs, alert.id))
    assert stage.board() == before
    stage.run(acknowledge(harness.verbs, alert.id, "bob"))
    harness.clock.advance(3601)
    stage.round()
    assert len(stage.history()) == 1
    stage.run(unacknowledge(harness.verbs, alert.id))
    stage.round()
    assert [notice.kind for notice in stage.history()] == [NoticeKind.REPEATED, NoticeKind.FIRING]


def test_two_people_who_change_one_rule_at_once_do_not_undo_each_other(harness: Harness) -> None:
    """Whoever comes second changes the rule as the first has left it."""
    stage = Stage(harness)
    stage.round()
    said = [{"above": 900.0}, {"severity": Severity.CRITICAL}, {"hold": 60.0}, {"cool_down": 120.0}]

    def change(fields: dict[str, Any]) -> None:
        stage.run(amend_rule(harness.verbs, "queue_age", lambda rule: replace(rule, **fields)))

    with ThreadPoolExecutor(len(said)) as pool:
        list(pool.map(change, said))
    rule = stage.board().overrides["queue_age"]
    assert (rule.above, rule.severity, rule.hold, rule.cool_down) == (900.0, Severity.CRITICAL, 60.0, 120.0)


def test_a_rule_that_others_change_meanwhile_is_amended_as_they_left_it(harness: Harness) -> None:
    """Between the look and the write of one, another changes the same rule."""
    stage = Stage(harness)
    stage.round()
    first = iter([True])

    def amend(rule: AlertRule) -> AlertRule:
        if next(first, False):
            stage.run(amend_rule(harness.verbs, "queue_age", lambda rule: replace(rule, above=900.0)))
        return replace(rule, hold=60.0)

    amended = stage.run(amend_rule(harness.verbs, "queue_age", amend))
    assert (amended.before.above, amended.after.above, amended.after.hold) == (900.0, 900.0, 60.0)
    assert stage.board().overrides["queue_age"] == amended.after


def crash(harness: Harness, number: int) -> None:
    """Let a process crash."""
    now = harness.clock.now()
    incident = Incident(id=f"i{number}", trouble=Trouble.CRASH, summary=f"no. {number}", at=now, last_at=now)
    run_procedure(harness.backend.run, write_incident(harness.verbs, incident))


def test_of_new_incidents_one_tells_after_the_cool_down_also_if_those_before_are_acknowledged(
    harness: Harness,
) -> None:
    """However many look at once; what is acknowledged in its turn stays so."""
    stage = Stage(harness)
    crash(harness, 1)
    stage.round()
    stage.run(acknowledge(harness.verbs, stage.board().firing[0].id, "ann"))
    harness.clock.advance(60)
    crash(harness, 2)
    crash(harness, 3)
    stage.round()
    assert len(stage.history()) == 1
    harness.clock.advance(240)
    with ThreadPoolExecutor(5) as pool:
        made = list(pool.map(stage.round, [stage.another() for _ in range(5)]))
    assert sum(len(each.notices) for each in made) == 1
    again, _ = stage.history()
    assert again.kind is NoticeKind.REPEATED
    assert again.title == "3 incidents (crash), the last: no. 3; 2 new since this was last told"
    stage.run(acknowledge(harness.verbs, stage.board().firing[0].id, "bob"))
    harness.clock.advance(290)
    stage.round()
    assert stage.board().firing[0].acknowledged_by == "bob"
    assert len(stage.deliveries()) == 2


def test_a_silence_ends_by_itself(harness: Harness) -> None:
    stage = Stage(harness)
    stage.run(add_silence(harness.verbs, "queue_age", None, harness.clock.now() + timedelta(minutes=1)))
    assert len(stage.board().silences) == 1
    harness.clock.advance(61)
    assert stage.board().silences == ()


def test_what_people_cannot_say(harness: Harness) -> None:
    stage, verbs = Stage(harness), harness.verbs
    stage.round()
    hour = timedelta(hours=1)
    for procedure, words in [
        (add_silence(verbs, None, None, hour), "never covers everything"),
        (add_silence(verbs, "queue_age", None, -hour), "ends in the future"),
        (add_silence(verbs, "queue_age", None, timedelta(days=31)), "30 days at most"),
        (
            amend_rule(verbs, "queue_age", lambda rule: replace(rule, name="b")),
            "name of rule 'queue_age' cannot be changed",
        ),
        (amend_rule(verbs, "queue_age", lambda rule: replace(rule, above=None)), "needs `above`"),
        (amend_rule(verbs, "queue_ages", lambda rule: rule), "did you mean queue_age"),
    ]:
        with pytest.raises(ConfigurationError, match=words):
            stage.run(procedure)
    for procedure in (acknowledge(verbs, "x", "me"), unacknowledge(verbs, "x"), end_silence(verbs, "x")):
        with pytest.raises(AlertNotFoundError):
            stage.run(procedure)


def test_rules_and_channels_are_told_to_those_who_have_the_store_alone(harness: Harness) -> None:
    """And forgotten some hours after nobody says so any more; another app's alerts are left to it."""
    stage = Stage(harness)
    theirs = stage.another(app="theirs")
    stage.round(theirs)
    stage.round()
    board = stage.board()
    assert {rule.name for rule in board.declared} == {rule.name for rule in stage.watching.rules}
    assert (board.channels, board.apps.keys()) == (("ops",), {"", "theirs"})
    harness.clock.advance(4 * 3600)
    stage.round()
    assert stage.board().apps.keys() == {""}


def test_what_people_have_changed_counts_with_all_else_as_it_is_declared_by_now(harness: Harness) -> None:
    """A release that renames a channel leaves no rule with one that is gone; a rule about something else is new."""
    rule = AlertRule(name="mine", check=Check.QUEUE_AGE, above=60.0, channels=("ops",), at_least=1)
    stage = Stage(harness, rule)
    stage.round()
    stage.run(amend_rule(harness.verbs, "mine", lambda counting: replace(counting, above=30.0)))
    declared = replace(rule, above=90.0, channels=("pager",), queue="mail")
    [counts] = effective_rules([declared], stage.board())
    assert counts == replace(declared, above=30.0)
    another = replace(rule, check=Check.START_LAG, above=5.0)
    assert effective_rules([another], stage.board()) == (another,)


def test_old_notices_are_forgotten(harness: Harness) -> None:
    stage = Stage(harness)
    harness.enqueue(queue="mail")
    harness.clock.advance(400)
    stage.round()
    stage.round()
    assert stage.run(forget_old_notices(harness.verbs)) == 0
    harness.clock.advance(31 * 86_400)
    assert stage.run(forget_old_notices(harness.verbs)) == 1
    assert harness.run(harness.verbs.records(Kind.NOTICE)) == ()
    assert KEPT == 1000
