"""JSON lines: one object each, flat, whatever happened and whatever was logged."""

import json
import logging
import sys
from datetime import UTC, datetime, timedelta

import pytest

from standfast import events
from standfast.model.job import Failure, Progress
from standfast.model.states import State
from standfast.observe.logs.json_lines import JsonLines
from standfast.observe.logs.levels import Level
from standfast.observe.logs.narrator import FirstCompletion, Folded, Summary
from standfast.testing.clock import FakeClock

JOB = ("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "send_email", "mail", 1, 2)
AT = datetime(2026, 5, 4, 14, 3, 7, 123456, tzinfo=UTC)
WHOSE = {"worker": "w1", "pid": 4242}
ABOUT_JOB = {"job_id": JOB[0], "task": "send_email", "queue": "mail", "attempt": 1, "max_attempts": 2}


@pytest.fixture
def lines():
    return JsonLines(FakeClock(AT), WHOSE)


def read(line):
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return json.loads(line)


def test_a_failure_is_flat_with_its_traceback(lines):
    event = events.JobRetrying(*JOB, Failure("SMTPError", "451 try\nagain", "Traceback…"), timedelta(seconds=1.5))
    assert read(lines.of_event(event, Level.WARNING)) == {
        "time": "2026-05-04T14:03:07.123Z",
        "level": "warning",
        "event": "job_retrying",
        "message": "send_email 3c2d1e0f failed (1/2): SMTPError: 451 try again — next try in 1.5 s",
        **ABOUT_JOB,
        **WHOSE,
        "error_type": "SMTPError",
        "error_message": "451 try\nagain",
        "traceback": "Traceback…",
        "delay": 1.5,
    }


@pytest.mark.parametrize(
    ("event", "name", "fields"),
    [
        (
            events.JobProgressed(*JOB, Progress(42, 100)),
            "job_progressed",
            {**ABOUT_JOB, "done": 42, "total": 100, "note": None},
        ),
        (
            FirstCompletion(events.JobCompleted(*JOB, timedelta(milliseconds=12)), hint=True),
            "job_completed",
            {**ABOUT_JOB, "took": 0.012},
        ),
        (events.WorkerStopped("w2", 7, 1), "worker_stopped", {"worker": "w2", "pid": 7, "released": 1}),
        (events.Drained({State.SCHEDULED: 3}), "drained", {"left": {"scheduled": 3}}),
        (
            Folded(events.JobDied(*JOB, Failure("E", "no")), "E", 9, 10.00004),
            "folded",
            {
                "kind": "job_died",
                "task": "send_email",
                "queue": "mail",
                "cause": "E",
                "count": 9,
                "seconds": 10.0,
                "last_job_id": JOB[0],
            },
        ),
        (
            Summary({"a": 2, "b": 1}, 4, 10.0),
            "summary",
            {"completed": 3, "failed": 4, "seconds": 10.0, "tasks": {"a": 2, "b": 1}},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_event_has_its_name_and_fields(lines, event, name, fields):
    told = read(lines.of_event(event, Level.INFO))
    assert told.pop("message")
    assert told == {"time": "2026-05-04T14:03:07.123Z", "level": "info", "event": name, **WHOSE, **fields}


def test_a_message_has_neither_symbols_nor_hints_for_people(lines):
    event = FirstCompletion(events.JobCompleted(*JOB, timedelta(milliseconds=12)), hint=True)
    assert read(lines.of_event(event, Level.INFO))["message"] == "send_email 3c2d1e0f completed in 12 ms"


def test_a_line_about_a_failure_fits_into_one_write_to_a_pipe(lines):
    failure = Failure("E", "x" * 10_000, "y" * 16_000)
    line = lines.of_event(events.JobDied(*JOB, failure), Level.ERROR)
    assert len(line.encode()) < 4096
    assert read(line)["traceback"] == "y" * 2000


def record(message, *args, exc_info=None, **extra):
    made = logging.getLogger("shop").makeRecord("shop", logging.INFO, "f", 1, message, args, exc_info, extra=extra)
    made.created = AT.timestamp()
    return made


def test_a_record_has_its_logger_and_its_extra_fields(lines):
    assert read(lines.of_record(record("sent %d", 3, job_id="j1", order=42))) == {
        "time": "2026-05-04T14:03:07.123Z",
        "level": "info",
        "event": "log",
        "message": "sent 3",
        "logger": "shop",
        **WHOSE,
        "job_id": "j1",
        "order": 42,
    }


def test_what_a_record_raised_is_a_field(lines):
    try:
        int("no number")
    except ValueError:
        made = record("failed", exc_info=sys.exc_info())
    assert read(lines.of_record(made))["traceback"].endswith(
        "ValueError: invalid literal for int() with base 10: 'no number'\n"
    )


class Mute:
    def __repr__(self):
        raise RuntimeError("mute")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1, 2}, [1, 2]),
        (object, "<class 'object'>"),
        ("\udcff", "\\udcff"),
        (2**70, 2**70),
        (Mute(), "a Mute that cannot be shown"),
    ],
)
def test_whatever_is_logged_comes_out_as_json(lines, value, shown):
    told = read(lines.of_record(record("it", thing=value)))
    assert told["thing"] == shown
    assert told["message"] == "it"


@pytest.mark.parametrize(
    ("message", "args", "shown"),
    [
        ("%d of them", ("x",), "%d of them ('x',)"),
        ({"event": "packed", "exc_info": ()}, (), "{'event': 'packed', 'exc_info': ()}"),
    ],
)
def test_a_record_that_cannot_say_its_message_is_a_line_all_the_same(lines, message, args, shown):
    """Else logging tells of it on stderr, in lines that are no JSON."""
    record = logging.LogRecord("shop", logging.INFO, "f", 1, message, args, None)
    assert read(lines.of_record(record))["message"] == shown


def test_what_a_caller_calls_like_ours_stays_ours(lines):
    told = read(lines.of_record(record("it", event="mine", time="never", level="none")))
    assert (told["event"], told["level"]) == ("log", "info")
