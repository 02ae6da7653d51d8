"""A host's own log and exceptions are left alone: only what handlers do is heard, and hooks are put back."""

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from stand_in import Line

from standfast.durable.lockkeeper import Holding
from standfast.durable.runtime import current_attempt
from standfast.events import Events, JobCompleted, StoreAway, StoreBack
from standfast.hosts.embedded import AttemptLocks, ProcessHooks
from standfast.model.clock import SystemClock
from standfast.model.job import Claim, ClaimRef
from standfast.model.secrets import NO_SECRETS
from standfast.observe.logs.attach import log_events_as_records
from standfast.worker.messages import Holds

NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Attempt:
    """An attempt, as far as its log goes."""

    def __init__(self):
        self.claim = Claim(ClaimRef("id", 7), "pack", 1, b"", "default", 0, NOW, 0, 0, 3)
        self.log = None
        self.scrub = NO_SECRETS
        self.trace = None


class Heard(list):
    """Who hears of unhandled."""

    def heard(self, error, _about, whose, **_):
        self.append((str(error), whose() and whose().job.task))
        return True


@pytest.fixture
def former(monkeypatch):
    """Have a hook that was there before; return what it hears."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda args: heard.append(str(args.exc_value)))
    return heard


@pytest.fixture
def hooks(former):  # noqa: ARG001 - it is around that hook
    hooks = ProcessHooks()
    hooks.begin()
    yield hooks
    hooks.end()


def fail_in_thread(words):
    def fail():
        raise LookupError(words)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join(10)


def test_only_threads_of_handlers_are_heard(hooks, former):
    """Those of the host go where they went before; so does what comes when no worker lives."""
    fail_in_thread("before any life")
    hooks.unhandled = Heard()
    fail_in_thread("the host's")
    token = current_attempt.set(Attempt())
    try:
        fail_in_thread("a handler's")
    finally:
        current_attempt.reset(token)
    assert hooks.unhandled == [("a handler's", "pack")]
    assert former == ["before any life", "the host's", "a handler's"]


def test_the_log_of_an_attempt_is_kept_without_a_handler_on_the_root(former):  # noqa: ARG001
    """`logging.basicConfig` does nothing where one is, and the host may call it after us."""
    root, factory, hook, start = (
        logging.getLogger(),
        logging.getLogRecordFactory(),
        threading.excepthook,
        threading.Thread.start,
    )
    handlers = root.handlers[:]
    hooks = ProcessHooks()
    hooks.begin()
    assert root.handlers == handlers
    attempt = Attempt()
    token = current_attempt.set(attempt)
    try:
        logging.getLogger("shop").warning("packed %d", 3)
    finally:
        current_attempt.reset(token)
    logging.getLogger("shop").warning("of a request")
    assert attempt.log.text.endswith("WARNING shop: packed 3")
    hooks.end()
    assert logging.getLogRecordFactory() is factory
    assert threading.excepthook is hook
    assert threading.Thread.start is start


def test_events_are_records_of_the_hosts_own_log(caplog):
    """Each at its level; those that others tell better are left out."""
    events = Events()
    with caplog.at_level(logging.INFO):
        log_events_as_records(events, SystemClock(), but=[StoreBack])
        events.emit(StoreAway("no route"))
        events.emit(StoreBack(1.0))
    assert [(record.name, record.levelname) for record in caplog.records] == [("standfast.events", "WARNING")]
    assert "no route" in caplog.text


def test_how_to_see_more_is_said_as_the_host_would_do_it(caplog):
    """There is no command line to add an option to."""
    events = Events()
    with caplog.at_level(logging.INFO):
        log_events_as_records(events, SystemClock())
        events.emit(JobCompleted("01a1e37f-cbb8-750c-8094-080db6ae4513", "pack", "default", 1, 5, timedelta(0)))
    assert "the level DEBUG shows each" in caplog.text
    assert "-v" not in caplog.text


async def test_only_locks_of_handlers_are_kept_by_the_beater(tmp_path):
    """It gives back all that it keeps when a life is over, and a request may go on with its lock."""
    line = Line()
    locks = AttemptLocks(line, tmp_path / "kept")
    holding = Holding("nightly", "h", 0, ttl=30.0, asked_at=0.0, clock=SystemClock())
    assert locks.keep(holding) is None
    assert line.said == []
    token = current_attempt.set(Attempt())
    try:
        assert locks.keep(holding) is not None
    finally:
        current_attempt.reset(token)
    assert [type(word) for word in line.said] == [Holds]
