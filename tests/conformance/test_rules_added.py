"""Rules that people add while the fleet runs, on every store: they count for all, once, until they are removed."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from alert_rounds import Stage
from conformance import Harness
from standfast.errors import ConfigurationError
from standfast.model.alerts import AlertRule, Check, NoticeKind, Severity
from standfast.observe.alerts.alert_rules import MOST_RULES
from standfast.observe.alerts.board_changes import (
    add_rule,
    add_silence,
    amend_rule,
    counting_rules,
    effective_rules,
    remove_rule,
)

WAITS = AlertRule(name="mail waits", check=Check.QUEUE_AGE, queue="mail", above=60.0)


def waiting(harness: Harness) -> Stage:
    """Return a stage whose fleet has told its rules, and on which a job waits that breaks none of them."""
    stage = Stage(harness)
    stage.round()
    harness.enqueue(queue="mail")
    harness.clock.advance(100)
    stage.round()
    assert stage.firing() == {}
    return stage


def test_an_added_rule_is_told_once_and_listed_until_it_is_removed(harness: Harness) -> None:
    """Its alert is forgotten then, without a word, as of a rule that nobody declares any more."""
    stage = waiting(harness)
    assert stage.run(add_rule(harness.verbs, WAITS)) == WAITS
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(stage.round, [stage.another() for _ in range(3)]))
    assert stage.firing().keys() == {"mail waits"}
    assert [notice.kind for notice in stage.history()] == [NoticeKind.FIRING]
    assert len(stage.deliveries()) == 1
    assert WAITS in counting_rules(stage.board())
    assert stage.run(remove_rule(harness.verbs, "mail waits")) == WAITS
    stage.round()
    assert (stage.board().alerts, len(stage.history())) == ((), 1)
    assert WAITS not in counting_rules(stage.board())


def test_an_added_rule_is_amended_itself_silenced_and_switched_off(harness: Harness) -> None:
    stage = waiting(harness)
    stage.run(add_rule(harness.verbs, WAITS))
    amended = stage.run(amend_rule(harness.verbs, "mail waits", lambda rule: replace(rule, above=1000.0)))
    assert (amended.before.above, amended.after.above, amended.added) == (60.0, 1000.0, True)
    board = stage.board()
    assert (board.added["mail waits"].above, board.overrides) == (1000.0, {})
    stage.round()
    assert stage.firing() == {}
    stage.run(amend_rule(harness.verbs, "mail waits", lambda rule: replace(rule, above=60.0)))
    stage.run(add_silence(harness.verbs, "mail waits", None, timedelta(minutes=1)))
    stage.round()
    assert (stage.firing().keys(), stage.history()) == ({"mail waits"}, [])
    harness.clock.advance(61)
    stage.round()
    assert len(stage.history()) == 1
    for enabled, firing in ((False, set()), (True, {"mail waits"})):
        stage.run(amend_rule(harness.verbs, "mail waits", lambda rule, on=enabled: replace(rule, enabled=on)))
        stage.round()
        assert stage.firing().keys() == firing
    assert len(stage.history()) == 2, "what was switched off and on again is told anew"
    with pytest.raises(ConfigurationError, match="no app declares it: change it, or remove it"):
        stage.run(amend_rule(harness.verbs, "mail waits", lambda _: None))


def test_of_several_who_add_one_rule_at_once_one_does(harness: Harness) -> None:
    stage = waiting(harness)

    def add(above: int) -> bool:
        try:
            stage.run(add_rule(harness.verbs, replace(WAITS, above=float(above))))
        except ConfigurationError:
            return False
        return True

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(add, range(1, 6))) == 1


def test_who_adds_one_while_another_is_added_undoes_nothing(harness: Harness) -> None:
    stage = waiting(harness)
    names = [f"rule {n}" for n in range(6)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: stage.run(add_rule(harness.verbs, replace(WAITS, name=name))), names))
    assert sorted(stage.board().added) == names


def test_a_rule_that_an_app_declares_counts_in_the_place_of_one_that_was_added(harness: Harness) -> None:
    """The added one counts again when nobody declares the other any more."""
    stage = waiting(harness)
    stage.run(add_rule(harness.verbs, WAITS))
    declared = replace(WAITS, above=5000.0, severity=Severity.CRITICAL)
    other = Stage(harness, declared)
    other.round(other.another(app="shop"))
    [counts] = [rule for rule in counting_rules(stage.board()) if rule.name == "mail waits"]
    assert counts == declared
    assert "mail waits" not in {rule.name for rule in effective_rules(stage.watching.rules, stage.board())}
    stage.run(amend_rule(harness.verbs, "mail waits", lambda rule: replace(rule, above=4000.0)))
    assert stage.board().added["mail waits"] == WAITS
    harness.clock.advance(4 * 3600)
    stage.round()
    assert WAITS in counting_rules(stage.board())
    assert "mail waits" not in stage.board().changed
    stage.run(remove_rule(harness.verbs, "mail waits"))
    assert "mail waits" not in {rule.name for rule in counting_rules(stage.board())}


def test_an_added_rule_can_be_removed_also_while_another_counts_in_its_place(harness: Harness) -> None:
    """What people have changed of that one stays."""
    stage = waiting(harness)
    stage.run(add_rule(harness.verbs, WAITS))
    other = Stage(harness, replace(WAITS, above=5000.0))
    other.round()
    stage.run(amend_rule(harness.verbs, "mail waits", lambda rule: replace(rule, above=4000.0)))
    assert stage.run(remove_rule(harness.verbs, "mail waits")) == WAITS
    [counts] = [rule for rule in counting_rules(stage.board()) if rule.name == "mail waits"]
    assert (counts.above, stage.board().added) == (4000.0, {})


def test_a_rule_that_is_added_has_nothing_of_one_that_had_its_name(harness: Harness) -> None:
    """What people once changed of that one means nothing to it."""
    old = Stage(harness, replace(WAITS, above=5000.0))
    old.round()
    old.run(amend_rule(harness.verbs, "mail waits", lambda rule: replace(rule, above=4000.0)))
    stage = Stage(harness)
    stage.round()
    stage.run(add_rule(harness.verbs, WAITS))
    board = stage.board()
    assert (board.overrides, board.amended, board.added) == ({}, {}, {"mail waits": WAITS})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "queue_age"}, "a rule 'queue_age' already: change it by `standfast alerts set`"),
        ({"name": "there"}, "a rule 'there' already"),
        ({"above": None}, "queue_age needs `above`"),
        ({"at_least": 5}, "queue_age does not use at_least: leave it out"),
        ({"task": "send"}, "queue_age is not about a task"),
        ({"channels": ("opps",)}, "tells channel 'opps', which does not exist; did you mean ops?"),
    ],
)
def test_what_cannot_be_added(harness: Harness, changed: dict[str, Any], words: str) -> None:
    stage = waiting(harness)
    stage.run(add_rule(harness.verbs, replace(WAITS, name="there", channels=("ops",))))
    before = stage.board()
    with pytest.raises(ConfigurationError, match=words):
        stage.run(add_rule(harness.verbs, replace(WAITS, **changed)))
    assert stage.board() == before


def test_there_are_only_so_many_rules_in_all(harness: Harness) -> None:
    """Those of apps and those that were added count together."""
    stage = Stage(harness, *(replace(WAITS, name=f"declared {n}") for n in range(MOST_RULES - 30)))
    stage.round()
    many = MOST_RULES - len(stage.watching.rules)
    assert 2 < many < 30
    for n in range(many):
        stage.run(add_rule(harness.verbs, replace(WAITS, name=f"rule {n}")))
    with pytest.raises(ConfigurationError, match=f"there are {MOST_RULES} rules already"):
        stage.run(add_rule(harness.verbs, WAITS))
    assert len(counting_rules(stage.board())) == MOST_RULES


def test_only_what_was_added_is_removed(harness: Harness) -> None:
    stage = waiting(harness)
    with pytest.raises(
        ConfigurationError, match="rule 'queue_age' is declared by an app: switch it off, or change"
    ):
        stage.run(remove_rule(harness.verbs, "queue_age"))
    with pytest.raises(ConfigurationError, match="did you mean queue_age"):
        stage.run(remove_rule(harness.verbs, "queue_ages"))


def test_what_is_said_of_channels_repeats_and_numbers_is_laid_over_what_is_declared(harness: Harness) -> None:
    """And all else is as the app declares it by now: also what could have been changed, and was not."""
    rule = AlertRule(name="mine", check=Check.FAILURE_RATE, above=0.5, at_least=10, channels=("ops",))
    stage = Stage(harness, rule)
    stage.round()
    stage.run(amend_rule(harness.verbs, "mine", lambda counting: replace(counting, at_least=50, repeat=None)))
    declared = replace(rule, above=0.9, at_least=20, repeat=60.0, channels=("pager",), hold=30.0)
    [counts] = [each for each in effective_rules([declared], stage.board()) if each.name == "mine"]
    assert counts == replace(declared, at_least=50, repeat=None)
    stage.run(amend_rule(harness.verbs, "mine", lambda counting: replace(counting, channels=None)))
    [counts] = [each for each in effective_rules([declared], stage.board()) if each.name == "mine"]
    assert counts == replace(declared, at_least=50, repeat=None, channels=None)
    with pytest.raises(ConfigurationError, match="did you mean ops"):
        stage.run(amend_rule(harness.verbs, "mine", lambda counting: replace(counting, channels=("opps",))))
