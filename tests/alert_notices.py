"""A notice as the tests of channels send it."""

from datetime import UTC, datetime, timedelta

from standfast.model.alerts import Alert, AlertState, Check, Example, Notice, NoticeKind, Severity

AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
JOB = "0199a1b2-0000-7000-8000-00000000000a"


def alert(**how) -> Alert:
    given = {
        "id": "a1",
        "rule": "queue-age",
        "check": Check.QUEUE_AGE,
        "subject": "mail",
        "severity": Severity.CRITICAL,
        "state": AlertState.FIRING,
        "says": "the oldest job of queue mail waits for 6 min",
        "since": AT - timedelta(minutes=6),
        "count": 7,
        "examples": (Example("job", JOB, "send_mail"),),
    }
    return Alert(**given | how)


def notice(**how) -> Notice:
    given = {
        "id": "n1",
        "kind": NoticeKind.FIRING,
        "at": AT,
        "rule": "queue-age",
        "severity": Severity.CRITICAL,
        "title": "jobs of 1 queue wait too long",
        "alerts": (alert(),),
        "labels": {"app": "shop"},
    }
    return Notice(**given | how)
