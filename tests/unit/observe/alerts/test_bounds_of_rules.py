"""What is too much is refused where it is declared, and what is left out of a list loses nothing that matters."""

import pytest
from msgspec.structs import replace

from alert_notices import alert, notice
from standfast import AlertRule, Standfast
from standfast.errors import ConfigurationError
from standfast.model.alerts import Example, Severity
from standfast.observe.alerts.alert_rules import MOST_RULES
from standfast.observe.alerts.board import MOST
from standfast.observe.alerts.evaluation import MOST_SAID
from standfast.observe.alerts.message import message_of
from standfast.observe.alerts.observations import MOST_ALERTS, MOST_SUBJECTS, OTHERS, Breach, by_key

RULE = AlertRule(name="age", check="queue_age", above=300)


def test_more_rules_than_can_be_told_of_are_refused():
    """Else they would count, and nobody could see, silence or change them."""
    app = Standfast("memory://")
    app.alerts(rules=[replace(RULE, name=f"age {number}", queue=f"q{number}") for number in range(MOST_RULES)])
    with pytest.raises(ConfigurationError, match="and 500 are the most"):
        _ = app.watching


def test_a_critical_one_among_the_others_makes_all_of_them_critical():
    """Quiet hours must not hold it back."""
    breaches = [Breach(RULE, f"q{number:03}", "it waits", 1000.0 - number) for number in range(MOST_SUBJECTS + 2)]
    found = by_key([*breaches, Breach(RULE, "z", "nobody serves it", 0.0, severity=Severity.CRITICAL)], set())
    assert found["age", OTHERS].severity is Severity.CRITICAL
    assert by_key(breaches, set())["age", OTHERS].severity is None


def test_a_name_in_a_mail_is_one_line_and_no_command():
    """Whatever somebody wrote into the store: people copy the advice into a shell."""
    odd = "x; rm -rf /\n\x1b[31m"
    shown = alert(subject=odd, says=odd, examples=(Example(kind="queue", id=odd),))
    text = message_of(notice(alerts=(shown,), labels={"app": odd})).text
    assert "\x1b" not in text
    assert "standfast queues show 'x; rm -rf /" in text
    assert not any(line.startswith("[31m") for line in text.splitlines())


def test_there_are_no_more_alerts_than_a_board_holds_however_many_rules_are_broken():
    """What does not fit on it would be forgotten, and told again by the next round."""
    rules = [replace(RULE, name=f"rule {number}") for number in range(MOST_RULES)]
    breaches = [Breach(rule, f"q{number}", "it waits") for rule in rules for number in range(MOST_SUBJECTS)]
    found = by_key(breaches, set())
    assert len(found) <= MOST_ALERTS + MOST_RULES < MOST["alerts"]
    assert {rule for rule, _ in found} == {rule.name for rule in rules}
    assert MOST["said"] >= MOST_SAID + MOST_ALERTS
