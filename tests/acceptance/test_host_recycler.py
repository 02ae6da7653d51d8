"""A platform stops idle apps: a long job goes on at the next start, and with `standfast keepalive` it never stops.

`make prove NAME=host_recycler` runs it at full size.
"""

import subprocess
from contextlib import contextmanager
from functools import partial

import pytest
from fleet import HERE, PROVE, STANDFAST, sizes
from host_stage import PYTHON, Kind, Stage

from servers.process import free_port

IDLE = sizes(short=4.0, full=20.0)
"""Seconds without a request after which the app is stopped."""

STEPS = 40
PAUSE = 1.5 * IDLE / STEPS
"""The job takes half as long again as an idle app lives."""

pytestmark = pytest.mark.timeout(600 if PROVE else 120)


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.close()


@pytest.fixture
def server(stage):
    """Give an app that sleeps until it is asked for."""
    backend = str(free_port())
    app = ("-m", "uvicorn", "host_asgi:web", "--app-dir", str(HERE), "--port", backend)
    words = (str(HERE / "idle_recycler.py"), "{port}", backend, str(IDLE), PYTHON, *app)
    return stage.start(Kind("recycler", words))


def recycled(server):
    return server.told.splitlines().count("stopped")


def stopped_or_done(stage, server, job, stops):
    return recycled(server) > stops or stage.notes.read("done", job)


def test_a_job_goes_on_when_the_app_is_woken(stage, server):
    """Each stop costs time, but no step: none is done twice, and none is left out."""
    job = server.post_until_heard(f"walk?steps={STEPS}&pause={PAUSE}")
    stage.wait_until(lambda: recycled(server), "the end of the idle app")
    slept_at = len(stage.notes.read("step", job))
    assert 0 < slept_at < STEPS
    assert stage.notes.read("done", job) == []

    while not stage.notes.read("done", job):
        server.post_until_heard("nap?seconds=0")
        stage.wait_until(partial(stopped_or_done, stage, server, job, recycled(server)), "a stop or the end")

    steps = [note.about for note in stage.notes.read("step", job)]
    assert steps == [str(step) for step in range(STEPS)]
    starts = stage.notes.read("start", job)
    assert len({start.pid for start in starts}) == len(starts) > 1


def test_an_app_that_is_kept_alive_never_stops(stage, server):
    """A request in time, again and again, and the job is done in one go."""
    url = f"http://127.0.0.1:{server.port}/"
    with kept_alive(stage, url):
        job = server.post_until_heard(f"walk?steps={STEPS}&pause={PAUSE}")
        stage.wait_for_note("done", job)
        assert recycled(server) == 0
    assert len(stage.notes.read("start", job)) == 1


@contextmanager
def kept_alive(stage, url):
    """Have an app pinged, from the time on when it answers."""
    command = [STANDFAST, "keepalive", url, "--every", f"{IDLE / 4:g}"]
    with subprocess.Popen(command, env=stage.environment(), stdout=subprocess.PIPE, text=True) as keeper:
        try:
            assert " up " in keeper.stdout.readline()
            yield
        finally:
            keeper.terminate()
    assert keeper.returncode == 0
