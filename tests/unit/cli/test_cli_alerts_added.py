"""`standfast alerts add` and `remove`, and what else `set` changes: channels, repeats, how many are enough."""

from datetime import UTC, datetime, timedelta

import pytest
from cli_world import answer, assert_refused

from alert_rounds import EVERYTHING, OPS
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, AlertSettings
from standfast.observe.alerts.channel import CommandChannel
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.stores.verb import run_procedure

PAGER = CommandChannel(name="pager", command=("true",))
WAITS = ("add", "mail waits", "--check", "queue_age", "--queue", "mail", "--above", "1m")


def look(world):
    """Look for trouble, as a worker does."""
    keeper = Monitor(AlertSettings(rules=DEFAULT_RULES, channels=(OPS, PAGER)))
    run_procedure(world.do, keeper.round(world.verbs, EVERYTHING, LocalView(datetime.now(UTC))))


@pytest.fixture
def told(world):
    """Let a job wait for some minutes, and a worker have told its rules."""
    world.enqueue(run_at=datetime.now(UTC) - timedelta(seconds=200))
    look(world)
    return world


def rules(standfast):
    return {rule["name"]: rule for rule in answer(standfast("alerts", "rules", "--json"))}


def firing(standfast):
    return [alert["rule"] for alert in answer(standfast("alerts", "list", "--json"))["alerts"]]


def test_a_rule_is_added_listed_changed_silenced_and_removed(standfast, told, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert standfast("alerts", *WAITS).stdout == "Rule mail waits counts, above 1 min.\n"
    look(told)
    assert firing(standfast) == ["mail waits"]
    assert (rules(standfast)["mail waits"]["added"], rules(standfast)["queue_age"]["added"]) == (True, False)
    assert "yes, added" in standfast("alerts", "rules").stdout
    changed = answer(standfast("alerts", "set", "mail waits", "--above", "10m", "--json"))
    assert (changed["above"], changed["added"], changed["changed"]) == (600.0, True, False)
    assert "Nobody is told of mail waits" in standfast("alerts", "silence", "mail waits", "--for", "1h").stdout
    look(told)
    assert firing(standfast) == []
    assert standfast("alerts", "remove", "mail waits").stdout == "Rule mail waits is removed.\n"
    assert "mail waits" not in rules(standfast)
    assert_refused(standfast("alerts", "remove", "mail waits"), 1, "there is no alert rule 'mail waits'")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("about", "warned"),
    [
        (
            ("--check", "queue_age", "--queue", "mial"),
            "no job and no worker knows a queue 'mial'; did you mean mail?",
        ),
        (("--check", "failure_rate", "--task", "sned"), "no job and no worker knows a task 'sned'"),
        (("--check", "queue_age", "--queue", "mail"), None),
        (("--check", "failure_rate", "--task", "send_email"), None),
    ],
)
def test_a_rule_about_a_name_that_nothing_has_is_added_with_a_warning(standfast, about, warned):
    added = standfast("alerts", "add", "slow", *about, "--above", "50%" if "--task" in about else "5m")
    assert added.exit_code == 0
    assert added.stderr == ("" if warned is None else f"standfast: warning: {warned}\n")


@pytest.mark.usefixtures("told")
def test_all_of_a_rule_can_be_said_as_it_is_added(standfast):
    words = (
        *("--check", "failure_rate", "--task", "send", "--queue", "mail", "--above", "20%", "--over", "15m"),
        *("--at-least", "50", "--hold", "2m", "--severity", "critical", "--channel", "ops", "--channel", "pager"),
        *("--cool-down", "0", "--repeat", "never"),
    )
    said = standfast("alerts", "add", "mail fails", *words)
    assert said.stdout == (
        "Rule mail fails counts, above 20%, over 15 min, hold 2 min, cool-down none, repeat never, of 50 at least,"
        " as critical, told by ops, pager.\n"
    )
    assert rules(standfast)["mail fails"] == {
        "name": "mail fails", "check": "failure_rate", "above": 0.2, "over": 900.0, "at_least": 50, "queue": "mail",
        "task": "send", "schedule": None, "hold": 120.0, "severity": "critical", "channels": ["ops", "pager"],
        "cool_down": 0.0, "repeat": None, "enabled": True, "changed": False, "added": True,
        "unit": "share", "looks_back": True, "needs_enough": True,
    }  # fmt: skip
    removed = answer(standfast("alerts", "remove", "mail fails", "--json"))
    assert (removed["name"], removed["above"]) == ("mail fails", 0.2)


@pytest.mark.usefixtures("world")
def test_before_workers_have_told_theirs_rules_are_added_and_removed(standfast):
    """Those that count from the start are known all the same."""
    assert answer(standfast("alerts", *WAITS, "--json"))["added"]
    assert "Nobody is told" in standfast("alerts", "silence", "mail waits", "--for", "2h").stdout
    taken = standfast("alerts", "add", "queue_age", "--check", "queue_age", "--above", "1m")
    assert_refused(taken, 2, "there is a rule 'queue_age' already")
    assert "is removed" in standfast("alerts", "remove", "mail waits").stdout


@pytest.mark.usefixtures("told")
def test_channels_repeats_and_how_many_are_enough_are_changed_and_reset(standfast):
    words = ("--channel", "pager", "--repeat", "1h", "--at-least", "30")
    said = standfast("alerts", "set", "failure_rate", *words).stdout
    assert said == "Rule failure_rate counts, above 50%, repeat 1 h, of 30 at least, told by pager.\n"
    rule = rules(standfast)["failure_rate"]
    assert (rule["channels"], rule["repeat"], rule["at_least"], rule["changed"]) == (["pager"], 3600.0, 30, True)
    assert "repeat never" in standfast("alerts", "set", "failure_rate", "--repeat", "never").stdout
    assert "told by every channel" in standfast("alerts", "set", "failure_rate", "--every-channel").stdout
    rule = rules(standfast)["failure_rate"]
    assert (rule["channels"], rule["repeat"], rule["at_least"]) == (None, None, 30)
    standfast("alerts", "set", "failure_rate", "--reset")
    rule = rules(standfast)["failure_rate"]
    assert (rule["repeat"], rule["at_least"], rule["changed"]) == (14400.0, 10, False)


@pytest.mark.usefixtures("told")
def test_a_rule_that_is_like_that_already_is_not_changed(standfast):
    """It stays as its app declares it, also by a later release."""
    assert not answer(standfast("alerts", "set", "queue_age", "--above", "5m", "--json"))["changed"]
    assert not rules(standfast)["queue_age"]["changed"]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("add", "queue_age", "--check", "queue_age", "--above", "1m"), "there is a rule 'queue_age' already"),
        (("add", "a", "--above", "1m"), "Missing option '--check'"),
        (("add", "a", "--check", "queue_ages", "--above", "1m"), "'queue_ages' is not one of"),
        (("add", "a", "--check", "queue_age"), "queue_age needs `above`"),
        (("add", "a", "--check", "queue_age", "--above", "x"), "--above: 'x' is no span"),
        (("add", "a", "--check", "queue_age", "--above", "400d"), "at most a year, as in above=60, not '400d'"),
        (("add", "a", "--check", "failure_rate", "--above", "50"), "a share from 0 to below 1"),
        (("add", "a", "--check", "queue_age", "--above", "1m", "--over", "5m"), "queue_age does not use over"),
        (
            ("add", "a", "--check", "queue_age", "--above", "1m", "--at-least", "1"),
            "queue_age does not use at_least",
        ),
        (("add", "a", "--check", "queue_age", "--above", "1m", "--task", "t"), "queue_age is not about a task"),
        (("add", "a", "--check", "queue_age", "--above", "1m", "--repeat", "1s"), "repeat must be 60 seconds"),
        (("add", "a", "--check", "queue_age", "--above", "1m", "--repeat", "no"), "15m or 2h, or never"),
        (("add", "a", "--check", "queue_age", "--above", "1m", "--channel", "opps"), "did you mean ops?"),
        (("add", "", "--check", "queue_age", "--above", "1m"), "a name of 1 to 100 letters"),
        (("remove", "queue_age"), "rule 'queue_age' is declared by an app: switch it off"),
        (("set", "queue_age", "--channel", "opps"), "did you mean ops?"),
        (("set", "queue_age", "--channel", "ops", "--every-channel"), "say one of them"),
        (("set", "queue_age", "--at-least", "5"), "queue_age does not use at_least"),
        (("set", "failure_rate", "--at-least", "0"), "at_least must be a whole number from 1 on"),
        (("set", "queue_age", "--every-channel", "--reset"), "say what to change"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(standfast, command, words):
    assert_refused(standfast("alerts", *command), 2, words)


@pytest.mark.usefixtures("told")
def test_a_rule_that_is_not_there_is_guessed(standfast):
    assert_refused(standfast("alerts", "remove", "queue_ages"), 1, "did you mean queue_age?")


@pytest.mark.usefixtures("told")
def test_a_rule_that_was_added_cannot_be_reset(standfast):
    """There is nothing that it was before."""
    standfast("alerts", *WAITS)
    assert_refused(standfast("alerts", "set", "mail waits", "--reset"), 2, "change it, or remove it")
