"""Rules: what counts from the start, what an app and its file change, and what is refused, where and how."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError
from standfast.model.alerts import AlertRule, Check, Severity
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, NEEDS, check_rule


def rules_of(app: Standfast) -> dict[str, AlertRule]:
    """Return the rules of an app by name."""
    return {rule.name: rule for rule in app.watching.rules}


def app_with_file(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Standfast:
    """Return an app beside a settings file."""
    (folder / "standfast.toml").write_text(text)
    monkeypatch.chdir(folder)
    return Standfast("memory://")


def test_default_rules_are_fit_and_count_from_the_start() -> None:
    app = Standfast("memory://")
    for rule in DEFAULT_RULES:
        check_rule(rule)
    assert app.watching.enabled
    assert tuple(rules_of(app).values()) == DEFAULT_RULES
    assert {rule.check for rule in DEFAULT_RULES} == set(Check) - {Check.START_LAG}


def test_a_rule_takes_the_place_of_the_one_of_its_name() -> None:
    app = Standfast("memory://")
    app.alerts(
        rules=[
            AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=timedelta(minutes=1)),  # type: ignore[arg-type]
            AlertRule(name="mine", check="start_lag", above=5),  # type: ignore[arg-type]
        ]
    )
    rules = rules_of(app)
    assert (rules["queue_age"].above, rules["mine"].check) == (60.0, Check.START_LAG)
    assert len(rules) == len(DEFAULT_RULES) + 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check": "queue_agee"}, "did you mean queue_age?"),
        ({"check": ["queue_age"]}, "there is no check"),
        ({"check": "queue_age"}, "needs `above`: seconds"),
        ({"check": "queue_age", "above": -1}, "seconds above 0"),
        ({"check": "failure_rate", "above": 50}, "a share from 0 to below 1"),
        ({"check": "not_durable", "above": 1}, "leave it out"),
        ({"check": "queue_age", "above": 60, "task": "x"}, "is not about a task; it takes queue"),
        ({"check": "schedule_late", "above": 60, "queue": "x"}, "is not about a queue; it takes schedule"),
        ({"check": "dead_letters", "above": 0, "over": 5}, "over must be 60 seconds or more"),
        ({"check": "dead_letters", "above": 0, "at_least": 0}, "at_least must be a whole number"),
        ({"check": "dead_letters", "above": 0, "severity": "bad"}, "no severity 'bad'"),
        ({"check": "dead_letters", "above": 0, "severity": ["bad"]}, "there is no severity"),
        ({"check": "dead_letters", "above": 0, "channels": ("ops",)}, "'ops', which does not exist"),
        ({"check": "dead_letters", "abov": 0}, "did you mean above?"),
        (
            {"check": "queue_age", "above": 60, "over": 600},
            "'mine': queue_age does not use over: leave it out; it takes above, queue and hold",
        ),
        ({"check": "dead_letters", "above": 0, "at_least": 50}, "dead_letters does not use at_least: leave it out"),
        ({"check": "not_durable", "at_least": 2}, "it takes hold"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    app = Standfast("memory://")

    def declare() -> None:
        app.alerts(rules=[AlertRule(name="mine", **options)])
        _ = app.watching

    with pytest.raises(ConfigurationError, match=r"^[^\n]*$") as refused:
        declare()
    assert words in str(refused.value)


def test_options_with_their_defaults_say_nothing_and_what_a_store_holds_stays_fit() -> None:
    """Only who declares a rule is told that an option is of no use: one that is stored already counts as ever."""
    Standfast("memory://").alerts(
        rules=[AlertRule(name="mine", check=Check.QUEUE_AGE, above=60, over=300.0, at_least=1)]
    )
    check_rule(AlertRule(name="mine", check=Check.QUEUE_AGE, above=60, over=600, at_least=50))


def test_two_rules_of_one_name_are_refused() -> None:
    rule = AlertRule(name="mine", check=Check.QUEUE_AGE, above=60)
    with pytest.raises(ConfigurationError, match="two rules are named 'mine'"):
        Standfast("memory://").alerts(rules=[rule, rule])


def test_every_check_says_what_it_needs() -> None:
    assert NEEDS.keys() == set(Check)


def test_a_file_changes_rules_and_adds_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that there is only what changes; spans as people write them."""
    app = app_with_file(
        tmp_path,
        monkeypatch,
        """
[alerts]
quiet_hours = [{ start = "22:00", end = "07:00", tz = "Asia/Taipei" }]
[[alerts.rules]]
name = "queue_age"
above = "2m"
severity = "critical"
[[alerts.rules]]
name = "disk_full"
enabled = false
[[alerts.rules]]
name = "failure_rate"
above = "80%"
[[alerts.rules]]
name = "mail is slow"
check = "start_lag"
queue = "mail"
above = "5s"
over = "10m"
repeat = "none"
""",
    )
    rules = rules_of(app)
    assert (rules["queue_age"].above, rules["queue_age"].severity) == (120.0, Severity.CRITICAL)
    assert not rules["disk_full"].enabled
    assert rules["failure_rate"].above == 0.8
    mine = rules["mail is slow"]
    assert (mine.above, mine.over, mine.repeat, mine.queue) == (5.0, 600.0, None, "mail")
    assert [str(window) for window in app.watching.quiet_hours] == ["22:00–07:00 Asia/Taipei"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[alerts]\nrule = []", "did you mean rules?"),
        ("[alerts]\nenabled = 3", "must be true or false"),
        ("[alerts]\nrules = 3", "must be tables"),
        ("[[alerts.rules]]\ncheck = 'queue_age'", "has no name"),
        ("[[alerts.rules]]\nname = 'mine'", "'mine': check is missing; it is one of: worker_silent"),
        ("[[alerts.rules]]\nname = 'queue_agee'\nabove = '2m'", "did you mean queue_age?), and check is missing"),
        ("[[alerts.rules]]\nname = 'failure_rate'\nabove = '5m'", "must be a share from 0 to below 1"),
        ("[[alerts.rules]]\nname = 'dead_letters'\nabove = '5%'", "`above` of dead_letters must be a number"),
        ("[[alerts.rules]]\nname = 'not_durable'\nabove = '5'", "not_durable has no `above`: leave it out"),
        ("[[alerts.rules]]\nname = 'queue_age'\nabove = '50%'", "write e.g. 30, 30s, 5m or 2h, not '50%' (from"),
        (
            "[[alerts.rules]]\nname = 'queue_age'\nabove = '400d'",
            "at most a year, as in above=60, not '400d' (from",
        ),
        ("[[alerts.rules]]\nname = 'dead_letters'\nover = '7h'", "at most 6 h, not '7h' (from"),
        ("[[alerts.rules]]\nname = 'dead_letters'\nover = 'x'", "write e.g. 30, 30s, 5m or 2h, not 'x' (from"),
        ("[[alerts.rules]]\nname = 'queue_age'\nover = '10m'", "queue_age does not use over"),
        ("[alert]\nenabled = true", "unknown section [alert] (from standfast.toml); did you mean [alerts]?"),
        ("[tasks]\nenabled = true", "section [tasks] (from standfast.toml); there are: [alerts], [objectives]"),
        ("[[alerts.rules]]\nname = 'mine'\nchek = 'queue_age'", "did you mean check?"),
        ("[[alerts.rules]]\nname = 'mine'\ncheck = 'queue_age'\nabove = 'soon'", "write e.g. 30, 30s, 5m or 2h"),
        ("[[alerts.rules]]\nname = 'mine'\ncheck = 'queue_age'", "needs `above`"),
        ("[[alerts.rules]]\nname = 'queue_age'\n[[alerts.rules]]\nname = 'queue_age'", "two rules are named"),
        ("[alerts]\nquiet_hours = [{ start = '22:00' }]", "quiet_hours"),
        (
            "[alerts]\nquiet_hours = [{ start = '22:00', end = '07:00', zone = 'UTC' }]",
            "quiet_hours: it has no option 'zone'; did you mean tz?",
        ),
        ("[alerts]\nquiet_hours = [{ start = '22:00', end = '25:00' }]", "quiet_hours"),
    ],
)
def test_a_file_that_cannot_be_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _ = app_with_file(tmp_path, monkeypatch, text).watching
    assert words in str(refused.value)
    assert str(refused.value).count("standfast.toml") == 1


def test_an_app_tells_how_long_its_tasks_may_run() -> None:
    app = Standfast("memory://")

    @app.task(timeout=30)
    def quick() -> None: ...

    @app.task
    def slow() -> None: ...

    assert app.watching.timeouts == {"quick": 30.0, "slow": None}
