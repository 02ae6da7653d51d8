"""Alerts as a supervisor would have found them, on the board of a stage, and what workers have told of them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from dashboard_stage import Stage
from standfast.model.alerts import Alert, AlertState, Check, Example, Notice, NoticeKind, Objective, Severity
from standfast.observe.alerts.alert_rules import DEFAULT_RULES
from standfast.observe.alerts.board import Published
from standfast.observe.alerts.board_changes import change_board, filing
from standfast.observe.catalogue import Catalogue, publish
from standfast.stores.verb import Procedure

MAILS = Objective(name="mails", task="send_email", target=0.9)


def alert(stage: Stage, name: str = "a1", **changed: Any) -> Alert:
    """Return an alert that fires for five minutes now."""
    since = stage.clock.now() - timedelta(minutes=5)
    given = {
        "rule": "dead_letters",
        "check": Check.DEAD_LETTERS,
        "subject": "send_email",
        "severity": Severity.WARNING,
        "state": AlertState.FIRING,
        "says": "3 jobs of send_email died",
        "since": since,
        "fired_at": since,
        "count": 3,
        "examples": (Example("job", "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "SMTPError"),),
    }
    return Alert(id=name, **{**given, **changed})


def put(stage: Stage, *alerts: Alert) -> None:
    """Write a board with these alerts beside what is declared."""
    put_board(stage, alerts=alerts)


def put_board(stage: Stage, **changed: Any) -> None:
    """Change what is on the board."""
    stage.do(Procedure(change_board(stage.verbs, lambda board: (replace(board, **changed), None))))


def tell(stage: Stage, number: int) -> None:
    """File so many notices, a minute apart, the last of them now."""
    for n in range(number):
        at = stage.clock.now() - timedelta(minutes=number - 1 - n)
        notice = Notice(
            id=f"n{n}",
            kind=NoticeKind.FIRING,
            at=at,
            rule="dead_letters",
            severity=Severity.WARNING,
            title="jobs died",
            alerts=(alert(stage),),
        )
        stage.do(stage.verbs.change_records([filing(notice)]))


def publish_watching(
    stage: Stage, channels: Sequence[str] = ("ops",), objectives: Sequence[Objective] = (MAILS,)
) -> None:
    """Let an app have told of the default rules, of channels and of objectives."""
    put_board(stage, apps={"shop": Published(DEFAULT_RULES, tuple(channels), stage.clock.now())})
    told = Catalogue("shop", "1", stage.clock.now(), "web-01", "0", objectives=tuple(objectives))
    stage.do(publish(stage.verbs, told))
