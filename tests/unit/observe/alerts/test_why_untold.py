"""Why people have not heard of an alert that fires, as the board tells: until when what keeps it from them."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from standfast.admin.alerts import alert_rows
from standfast.cli import alerts
from standfast.model.alerts import Alert, AlertRule, Check, Severity, Silence
from standfast.model.display import moment
from standfast.observe.alerts.board import EMPTY, Board, Said
from standfast.observe.alerts.evaluation import Round, evaluate
from standfast.observe.alerts.observations import Breach

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULE = AlertRule(name="old", check=Check.QUEUE_AGE, above=60)
LATER = NOW + timedelta(seconds=200)
UNTIL = f"until {moment(LATER, NOW)}"
SILENCES = (
    Silence(id="1", until=LATER, rule="old"),
    Silence(id="2", until=NOW + timedelta(seconds=100), subject="mail"),
)
LATELY = (Said("old", "mail", fired_at=LATER - timedelta(seconds=RULE.cool_down)),)
QUIET = {"quiet": True, "quiet_until": LATER}


def why_untold(alert: Alert, now: datetime) -> str:
    """Return what the command line says of it."""
    [row] = alert_rows([alert])
    return alerts.why_untold(row, now)


def looked(board: Board, *, rule: AlertRule = RULE, now: datetime = NOW, **how: object) -> Board:
    """Return the board after a look that found the rule to be broken."""
    return evaluate(board, Round(now, (rule,), {Check.QUEUE_AGE}, [Breach(rule, "mail", "old")], **how)).board


@pytest.mark.parametrize(
    ("board", "how", "words"),
    [
        (EMPTY, {}, ""),
        (Board(silences=SILENCES), {}, f"silenced {UNTIL}"),
        (EMPTY, QUIET, f"not told yet: quiet hours {UNTIL}"),
        (Board(said=LATELY), {}, f"not told yet: cool-down {UNTIL}"),
        (Board(said=LATELY, silences=SILENCES), QUIET, f"silenced {UNTIL}"),
        (EMPTY, QUIET | {"rule": replace(RULE, severity=Severity.CRITICAL)}, ""),
    ],
    ids=["told", "silence", "quiet", "cool-down", "all", "critical"],
)
def test_what_keeps_people_from_being_told_is_said_with_its_end(board: Board, how: dict, words: str) -> None:
    """Once it is over the next round tells, and then there is nothing to say."""
    held = looked(board, **how)
    assert why_untold(held.alerts[0], NOW) == words
    over = why_untold(held.alerts[0], LATER)
    assert over in {"", "silenced", "not told yet: waits for the next round"}
    [told] = looked(held, now=LATER).alerts
    assert (why_untold(told, LATER), told.held, told.held_until) == ("", None, None)


def test_an_acknowledgement_is_said_as_it_is() -> None:
    [alert] = looked(EMPTY, **QUIET).alerts
    assert why_untold(replace(alert, acknowledged_at=NOW), NOW) == "acknowledged"


def test_a_round_that_finds_the_same_leaves_the_board_as_it_is() -> None:
    """What is held back is no reason to write again and again."""
    held = looked(Board(said=LATELY))
    assert looked(held, now=NOW + timedelta(seconds=10)) == held


def test_of_a_later_release_or_a_rule_of_others_there_is_nothing_to_say_but_that_a_round_will_come() -> None:
    [alert] = looked(EMPTY, **QUIET).alerts
    assert why_untold(replace(alert, held=None, held_until=None), NOW) == "not told yet: waits for the next round"
