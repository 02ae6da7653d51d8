"""Health in a web app tells what workers inside have counted: all of it, at once, whichever process is asked."""

import asyncio
import logging
from datetime import timedelta
from http import HTTPStatus

import pytest

from standfast import Standfast
from standfast.cli.connection import LazyStore
from standfast.model.clock import SystemClock
from standfast.model.job import Claim, ClaimRef, Ending, Verdict
from standfast.model.states import Move
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health, Request
from standfast.observe.metrics.meter import MeteredTally
from standfast.observe.metrics.shared import SharedFolder
from standfast.settings import Loaded
from standfast.stores.contract import count_states
from standfast.worker.completer import Ended

ASKED = Request("GET", "/metrics", "127.0.0.1")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "metrics"


@pytest.fixture
def app(folder):
    with Standfast("memory://", metrics_dir=folder) as made:
        yield made


class Process:
    """A process of the server: it counts, and is asked."""

    def __init__(self, app, folder):
        self.health = Health(app, networks=LOOPBACK, rate=1000)
        self.meter = SharedFolder(folder).meter()
        self._tally = MeteredTally(self.meter, SystemClock())

    def count(self, number):
        ref, now = ClaimRef("job", 1), SystemClock().now()
        claim = Claim(ref, "send", 1, b"", "mail", 0, now, 0, 0, 3)
        ended = Ended(claim, Ending(ref, Move.COMPLETE, started_at=now + timedelta(seconds=1)), 0.5)
        self._tally.count([ended] * number, [Verdict.ACCEPTED] * number)

    def completed(self):
        return _completed(self.health.answer(ASKED).body.decode())

    async def acompleted(self):
        scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [], "client": ("127.0.0.1", 1)}
        sent = []

        async def send(message):
            sent.append(message)

        await self.health.asgi(scope, None, send)
        assert sent[0]["status"] == HTTPStatus.OK
        return _completed(sent[1]["body"].decode())


def _completed(text):
    """Return the number that a page tells; None where it tells none. How the store stands is told at any rate."""
    assert "\nstandfast_store_up 1\n" in text
    named = 'standfast_attempts_total{queue="mail",task="send",outcome="completed"} '
    found = [line.removeprefix(named) for line in text.splitlines() if line.startswith(named)]
    return int(found[0]) if found else None


def test_processes_that_are_asked_in_turn_tell_the_same_sum(app, folder):
    """What one has told the next tells as well, however soon, and whoever ended in between."""
    assert _completed(Health(app, networks=LOOPBACK).answer(ASKED).body.decode()) is None, "nobody has counted yet"
    one, other = Process(app, folder), Process(app, folder)
    expected = 0
    for number in (1, 10, 100):
        one.count(number)
        other.count(number)
        expected += 2 * number
        assert one.completed() == other.completed() == expected
        assert asyncio.run(one.acompleted()) == asyncio.run(other.acompleted()) == expected
    other.meter.close()
    assert one.completed() == expected
    third = Process(app, folder)
    assert one.completed() == third.completed() == expected


def test_the_command_tells_the_same(folder, tmp_path):
    """It is a process of its own, and has the app's settings."""
    with Standfast(f"sqlite:///{tmp_path / 'jobs.db'}", metrics_dir=folder) as app:
        process = Process(app, folder)
        process.count(3)
        app.call(count_states(app.verbs))  # makes the file
        asked = LazyStore(Loaded(app.settings, app.settings_from))
        try:
            told = Health(asked, networks=LOOPBACK).answer(ASKED).body.decode()
            assert _completed(told) == process.completed() == 3
        finally:
            asked.close()


def test_without_the_setting_there_are_no_counters(folder):
    with Standfast("memory://") as app:
        process = Process(app, folder)
        process.count(3)
        assert process.completed() is None


def test_what_cannot_be_read_is_left_out_and_said_once(app, folder, monkeypatch, caplog):
    """A smaller sum would look as if all had begun anew."""
    process = Process(app, folder)
    process.count(3)

    def fail(_):
        raise OSError(24, "Too many open files")

    caplog.set_level(logging.WARNING, "standfast")
    with monkeypatch.context() as patched:
        patched.setattr(SharedFolder, "sums", fail)
        assert [process.completed() for _ in range(3)] == [None] * 3
    assert process.completed() == 3
    assert [record.getMessage() for record in caplog.records] == [
        "health: what workers have counted cannot be read: [Errno 24] Too many open files"
    ]
