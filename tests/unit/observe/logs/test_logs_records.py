"""Log records of the app and of ours come into the worker's log, unless the app has a console of its own."""

import io
import logging
import sys

import pytest

from standfast.observe.logs.console import HumanLines, RecordHandler, attach_records
from standfast.observe.logs.levels import Level
from standfast.testing.clock import FakeClock


@pytest.fixture
def root():
    """Stand in for the root logger of a process that only just began."""
    return logging.RootLogger(logging.WARNING)


@pytest.fixture(autouse=True)
def leave_ours_as_it_was():
    ours = [logging.getLogger(name) for name in ("standfast", "standfast.job")]
    before = [each.level for each in ours]
    yield
    for each, level in zip(ours, before, strict=True):
        each.setLevel(level)


@pytest.fixture
def written():
    return []


@pytest.fixture
def handler(written):
    lines = HumanLines(FakeClock(), colours=False)
    return RecordHandler(lines.of_record, written.append)


def say(root, level, message, name="shop.mail", exc_info=None, **extra):
    if root.isEnabledFor(level):
        root.handle(root.makeRecord(name, level, "f", 1, message, (), exc_info, extra=extra))


def words(line):
    """Return the line without its time."""
    return line.partition(" ")[2]


def test_an_app_without_logging_is_heard_from_the_level_on(root, handler, written):
    attach_records(root, handler, Level.INFO, alone=False)
    say(root, logging.DEBUG, "too small")
    say(root, logging.INFO, "connected\nto\x1b[2J mail")
    say(root, logging.WARNING, "slow")
    say(root, logging.CRITICAL, "down")
    assert [words(line) for line in written] == [
        "· shop.mail: connected to�[2J mail\n",
        "⚠ shop.mail: slow\n",
        "✘ shop.mail: down\n",
    ]


def test_a_record_of_a_job_names_the_job(root, handler, written):
    attach_records(root, handler, Level.INFO, alone=False)
    job = {"job_id": "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "task": "send_email"}
    say(root, logging.INFO, "halfway", name="standfast.job", **job)
    assert words(written[0]) == "· send_email 3c2d1e0f: halfway\n"


def test_our_own_records_are_for_people_who_know_none_of_our_files(root, handler, written):
    """A logger of theirs is named, also one whose name begins like ours."""
    attach_records(root, handler, Level.INFO, alone=False)
    job = {"job_id": "0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "task": "send_email"}
    for name in ("standfast.hosts.publication", "standfast", "standfast_shop"):
        say(root, logging.WARNING, "look", name=name)
        say(root, logging.WARNING, "look", name=name, **job)
    assert [words(line) for line in written] == [
        *("⚠ look\n", "⚠ send_email 3c2d1e0f: look\n") * 2,
        *("⚠ standfast_shop: look\n", "⚠ send_email 3c2d1e0f standfast_shop: look\n"),
    ]


def test_what_a_record_says_was_raised_follows_it(root, handler, written):
    attach_records(root, handler, Level.INFO, alone=False)
    try:
        int("no number")
    except ValueError:
        say(root, logging.ERROR, "failed", exc_info=sys.exc_info())
    first, *frames, last = written[0].splitlines()
    assert words(first) == "✘ shop.mail: failed"
    assert "test_logs_records.py" in frames[0]
    assert last.strip() == "ValueError: invalid literal for int() with base 10: 'no number'"


@pytest.mark.parametrize("alone", [False, True])
def test_an_app_with_a_console_of_its_own_keeps_it_unless_ours_must_be_alone(root, handler, written, alone):
    theirs = logging.StreamHandler(sys.stderr)
    file = logging.StreamHandler(io.StringIO())
    root.addHandler(theirs)
    root.addHandler(file)
    root.setLevel(logging.INFO)
    attach_records(root, handler, Level.DEBUG, alone=alone)
    say(root, logging.INFO, "hello")
    assert root.handlers == ([file, handler] if alone else [theirs, file])
    assert len(written) == alone
    assert root.level == logging.INFO
    assert file.stream.getvalue() == "hello\n"


def test_ours_always_have_the_level_that_was_asked_for(root, handler):
    attach_records(root, handler, Level.DEBUG, alone=False)
    assert logging.getLogger("standfast.worker").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize(
    ("asked", "heard"), [(Level.ERROR, logging.INFO), (Level.INFO, logging.INFO), (Level.DEBUG, logging.DEBUG)]
)
def test_what_a_job_says_is_made_for_its_own_log_and_written_from_the_level_on(root, handler, asked, heard):
    attach_records(root, handler, asked, alone=False)
    assert logging.getLogger("standfast.job").getEffectiveLevel() == heard
    assert handler.level == asked


def test_handlers_of_the_app_hear_no_more_of_jobs_than_before(root, handler):
    root.addHandler(logging.NullHandler())
    attach_records(root, handler, Level.ERROR, alone=False)
    assert logging.getLogger("standfast.job").getEffectiveLevel() == logging.ERROR


def test_a_record_that_cannot_be_shown_harms_nobody(root, handler, written, capsys):
    attach_records(root, handler, Level.INFO, alone=False)
    root.handle(root.makeRecord("shop", logging.INFO, "f", 1, "%d", ("x",), None))
    assert written == []
    assert "Logging error" in capsys.readouterr().err
