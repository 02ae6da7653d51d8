"""A host starts beside what its process does: that comes up whatever is wrong, unless the worker is required."""

import logging
import threading

import pytest
from hosting import eventually

from standfast import Standfast
from standfast.errors import ConfigurationError, StandfastError
from standfast.events import HostReady, HostStopped, HostStopping, StopStage
from standfast.hosts.host import Host, HostState
from standfast.worker.worker import Worker

NOBODY_THERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def app(tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


def failing(app):
    """Give an app a lifespan that fails."""

    @app.lifespan
    async def broken(_app):
        raise LookupError("no such shelf")
        yield

    return app


def stopped_in_threads(host, number):
    """Stop a host in so many threads at once; return what each finds when that returns."""
    states = []

    def stop():
        host.stop()
        states.append(host.state)

    threads = [threading.Thread(target=stop) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return states


def test_a_host_works_between_start_and_stop(app):
    """Both may be called again; its events are told in order; one app has one host in a process.

    Of two threads that stop it both return when it has stopped.
    """
    told = []
    app.events.subscribe(told.append)

    @app.task
    def double(number: int) -> int:
        return 2 * number

    host = Host(app, concurrency=2, target="host_jobs:app")
    assert host.state is HostState.NEW
    with host:
        host.start()
        assert host.ready(60)
        assert host.state is HostState.WORKING
        assert double.enqueue(21).result(timeout=30) == 42
        with pytest.raises(ConfigurationError, match="has a host in this process already"):
            Host(app).start()
        assert stopped_in_threads(host, 2) == [HostState.STOPPED] * 2
    assert host.state is HostState.STOPPED
    host.stop()
    ours = [event for event in told if isinstance(event, HostReady | HostStopping | HostStopped)]
    ready, *stopping, stopped = ours
    assert (ready.tasks, ready.concurrency) == (1, 2)
    stages = [StopStage.CLAIMING, StopStage.TELLING, StopStage.RELEASING, StopStage.CLOSING]
    assert [event.stage for event in stopping] == stages, "nothing ran, so nothing was waited for"
    assert stopped.running == 0


def test_a_server_that_is_down_is_waited_for_and_told_of_once(caplog):
    """The start does not wait, and a stop is not held up either."""
    with Standfast(NOBODY_THERE) as app, caplog.at_level(logging.WARNING), Host(app) as host:
        eventually(lambda: "store" in caplog.text, "word of the store")
        assert not host.ready(0.5)
        assert host.state is HostState.STARTING
    assert len([record for record in caplog.records if record.name == "standfast.events"]) == 1
    assert host.state is HostState.STOPPED


def test_a_required_worker_has_to_be_ready():
    with Standfast(NOBODY_THERE) as app, pytest.raises(StandfastError, match="not ready within 1 s"):
        Host(app, required=True, start_within=1).start()


def test_what_has_to_be_put_right_is_said_once(app, caplog):
    """No trying helps: one error names it, and the process goes on without a worker."""
    host = Host(failing(app))
    with caplog.at_level(logging.ERROR), host:
        assert not host.ready(60)
        assert host.state is HostState.FAILED
    [said] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "lifespan" in said.message
    assert "no such shelf" in said.message


def test_a_required_worker_raises_what_has_to_be_put_right(app):
    host = Host(failing(app), required=True)
    with pytest.raises(ConfigurationError, match="no such shelf"):
        host.start()
    assert host.state is HostState.STOPPED


def test_a_worker_that_fails_leaves_its_lifespans(app, monkeypatch):
    """Another is begun in the same process: what the first had set up would be there for ever."""
    told, works = [], Worker.run

    @app.lifespan
    async def shelf(_app):
        told.append("entered")
        yield
        told.append("left")

    async def fails_once(_worker):
        monkeypatch.setattr(Worker, "run", works)
        raise LookupError("its loops are gone")

    monkeypatch.setattr(Worker, "run", fails_once)
    with Host(app) as host:
        eventually(lambda: told == ["entered", "left", "entered"], "another worker begins")
        assert host.ready(60)
    assert told == ["entered", "left"] * 2
