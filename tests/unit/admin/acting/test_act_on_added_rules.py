"""Rules that are added for the whole fleet, and removed: by admins, written down, and shown as what they are."""

import pytest

from dashboard_alerts import publish_watching
from standfast.admin.operation import NotAllowedError, NotThereError, Role, WrongRequestError
from standfast.model.alerts import AlertRule, Check, Severity
from standfast.observe.alerts.board_changes import read_board

WAITS = {"name": "mail waits", "check": Check.QUEUE_AGE, "queue": "mail", "above": "1m"}


def noted(stage):
    entry = stage.read("audit.list").entries[0]
    return entry.what, entry.asked["name"], str(entry.before or ""), str(entry.after or "")


def rules(stage):
    return {each.name: each for each in stage.read("rules.list").rules}


def test_a_rule_is_added_and_removed(stage):
    """For the whole fleet; what it was is written down."""
    publish_watching(stage)
    done = stage.act("rules.add", **WAITS, repeat="never", channels=("ops",), severity=Severity.CRITICAL)
    assert (done.above, done.added, done.changed) == (60.0, True, False)
    told = "on: above 60, over 300 s, hold 0 s, pause 300 s, critical, at least 1, repeat never, to ops"
    assert noted(stage) == ("rules.add", "mail waits", "", told)
    expected = AlertRule(
        name="mail waits",
        check=Check.QUEUE_AGE,
        queue="mail",
        above=60.0,
        repeat=None,
        channels=("ops",),
        severity=Severity.CRITICAL,
    )
    assert stage.do(read_board(stage.verbs)).added == {"mail waits": expected}
    assert [name for name, rule in rules(stage).items() if rule.added] == ["mail waits"]
    assert list(rules(stage)) == sorted(rules(stage))
    assert stage.act("rules.remove", name="mail waits").name == "mail waits"
    assert noted(stage) == ("rules.remove", "mail waits", told, "deleted")
    assert "mail waits" not in rules(stage)


def test_an_added_rule_is_changed_switched_off_and_silenced_like_others(stage):
    publish_watching(stage)
    stage.act("rules.add", **WAITS)
    changed = stage.act("rules.change", name="mail waits", above=30.0, repeat="2h", channels=("ops",))
    assert (changed.above, changed.repeat, changed.channels) == (30.0, 7200.0, ("ops",))
    assert (changed.added, changed.changed) == (True, False)
    assert stage.act("rules.change", name="mail waits", every_channel=True).channels is None
    assert not stage.act("rules.off", name="mail waits").enabled
    assert stage.act("alerts.silence", rule="mail waits", until="2h").until
    with pytest.raises(WrongRequestError, match="change it, or remove it"):
        stage.act("rules.reset", name="mail waits")


def test_what_was_not_changed_is_not_called_so(stage):
    """Who switches on what is on has changed nothing."""
    publish_watching(stage)
    assert not stage.act("rules.on", name="queue_age").changed
    assert not rules(stage)["queue_age"].changed


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"name": "queue_age"}, "there is a rule 'queue_age' already"),
        ({"above": None}, "queue_age needs `above`"),
        ({"above": "soon"}, "above: 'soon' is no span"),
        ({"at_least": 5}, "does not use at_least"),
        ({"over": "15m"}, "does not use over"),
        ({"repeat": "1s"}, "repeat must be 60 seconds or more"),
        ({"channels": ("opps",)}, "did you mean ops"),
        ({"schedule": "nightly"}, "queue_age is not about a schedule"),
    ],
)
def test_what_means_nothing_is_not_added(stage, said, words):
    publish_watching(stage)
    with pytest.raises(WrongRequestError, match=words):
        stage.act("rules.add", **{**WAITS, **said})
    assert stage.do(read_board(stage.verbs)).added == {}


def test_only_what_was_added_is_removed(stage):
    publish_watching(stage)
    with pytest.raises(WrongRequestError, match="rule 'queue_age' is declared by an app"):
        stage.act("rules.remove", name="queue_age")
    with pytest.raises(NotThereError, match="did you mean queue_age"):
        stage.act("rules.remove", name="queue_ag")


def test_rules_are_added_and_removed_by_admins(stage):
    publish_watching(stage)
    with pytest.raises(NotAllowedError):
        stage.act("rules.add", Role.OPERATOR, **WAITS)
    stage.act("rules.add", **WAITS)
    with pytest.raises(NotAllowedError):
        stage.act("rules.remove", Role.OPERATOR, name="mail waits")
    assert "mail waits" in rules(stage)
