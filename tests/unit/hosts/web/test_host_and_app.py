"""A host ends and measures what else the app does in its process: background work, and its own event loop."""

import asyncio
import gc
import threading

import pytest

from standfast import Life, Standfast
from standfast.errors import BackgroundClosedError
from standfast.hosts import asgi
from standfast.hosts.host import Host, HostState
from standfast.model.records import Kind

PATIENCE = 60.0


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDFAST_HOST", "on")
    with Standfast(f"sqlite:///{tmp_path / 'jobs.db'}", grace=20) as app:
        yield app


def test_work_in_the_background_ends_with_the_host_and_may_begin_again_with_it(app):
    """It is told while there is time, nothing begins after the stop, and the next start takes it in again."""
    begun, ended = threading.Event(), threading.Event()

    def tidy(life: Life) -> None:
        begun.set()
        while not life.cancelled:
            threading.Event().wait(0.01)
        ended.set()

    host = Host(app)
    host.start()
    work = app.background(tidy)
    assert begun.wait(PATIENCE)
    host.stop()
    assert ended.is_set()
    assert work.ended(timeout=0)
    with pytest.raises(BackgroundClosedError):
        app.background(tidy)
    with host:
        app.background(tidy)


def test_a_job_that_stops_its_host_does_not_wait_for_itself(app):
    """It returns at once, in a thread and on the event loop, and its result is written within the grace of 20 s."""
    host = Host(app)

    @app.task
    def from_a_thread() -> str:
        host.stop()
        return "stopped"

    @app.task
    async def from_the_loop() -> str:
        await host.astop()
        host.stop()
        return "stopped"

    for task in (from_a_thread, from_the_loop):
        host.start()
        assert host.ready(PATIENCE)
        job = task.enqueue()
        assert job.result(timeout=15) == "stopped"
        host.stop()
        assert host.state is HostState.STOPPED
        assert job.job().attempt == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_exceptions_of_the_web_app_itself_are_incidents_where_it_asks_for_that(app):
    """A thread that dies, and a task that nobody awaits. Without the option they are left to the server."""

    async def sync_prices():
        raise LookupError("no prices")

    def warm_cache():
        raise LookupError("no cache")

    def fail():
        thread = threading.Thread(target=warm_cache, name="warmer")
        thread.start()
        thread.join()

    async with asgi.lifespan(Host(app))("web"):
        fail()
    host = Host(app, stray_exceptions=True)
    async with asgi.lifespan(host)("web"):
        assert await asyncio.to_thread(host.ready, PATIENCE)
        fail()
        task = asyncio.create_task(sync_prices())
        await asyncio.wait([task])
        del task
        gc.collect()
    assert asyncio.get_running_loop().get_exception_handler() is None
    told = [record.body for record in app.call(app.verbs.records(Kind.INCIDENT))]
    assert len(told) == 2
    assert any(b"LookupError: no cache in thread 'warmer'" in each for each in told)
    assert any(b"LookupError: no prices in task" in each for each in told)


async def test_an_adaptive_gate_goes_by_the_loop_that_serves(app):
    adaptive = app.adaptive(lag=0.05)
    async with asgi.lifespan(app)("web"):
        assert adaptive.watches
        await asyncio.sleep(0.2)
        assert asyncio.get_running_loop() in adaptive._watched


def test_without_one_it_goes_by_the_loop_of_the_worker(app):
    """As in a server of WSGI: the two share an interpreter."""
    adaptive = app.adaptive(lag=0.05)
    with Host(app) as host:
        assert host.ready(PATIENCE)
        assert adaptive.watches
    assert not adaptive.watches
