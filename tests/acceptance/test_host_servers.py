"""Workers inside web servers: they live and die with them, and no job is lost or done twice by that.

`make prove NAME=host_servers` runs them at full size: more rounds, and on each store.
"""

import os
import signal
import threading
from ast import literal_eval
from contextlib import contextmanager

import pytest
from fleet import PROVE, sizes
from host_stage import (
    GUNICORN_ASGI,
    GUNICORN_DJANGO,
    GUNICORN_FLASK,
    GUNICORN_UVICORN,
    PYTHON,
    RUNSERVER,
    UVICORN,
    Kind,
    Stage,
    django,
    gunicorn,
    uvicorn,
)

ROUNDS = sizes(short=1, full=5)
NAPS = sizes(short=10, full=60)
"""Jobs that requests enqueue while the server restarts."""

STORES = sizes(short=("sqlite",), full=("sqlite", "postgres", "redis"))
KINDS = (UVICORN, GUNICORN_UVICORN, GUNICORN_ASGI, GUNICORN_FLASK, RUNSERVER)
KINDS += sizes(short=(), full=(GUNICORN_DJANGO,))  # a server and a framework that each have come before

pytestmark = pytest.mark.timeout(900 if PROVE else 120)


@pytest.fixture(params=STORES)
def stage(request, tmp_path):
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    stage = Stage(tmp_path, url)
    try:
        yield stage
    finally:
        stage.close()


@contextmanager
def requests_to(server):
    """Send requests beside the test, one after the other, so many in all; yield the ids of accepted jobs."""
    accepted: list[str] = []
    half = threading.Event()

    def send():
        for number in range(NAPS):
            accepted.append(server.post_until_heard("nap?seconds=0.2"))
            if number >= NAPS // 2:
                half.set()

    sender = threading.Thread(target=send)
    sender.start()
    half.wait(60)
    yield accepted
    sender.join()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_server_runs_jobs_restarts_and_is_killed(stage, kind):
    """Scheduled jobs run before any request; restarts in the middle of jobs and kills lose and double nothing."""
    server = stage.start(kind)
    stage.wait_for_note("done")
    pids = stage.wait_for_workers(kind.workers)
    ordered = []
    for _ in range(ROUNDS):
        held = server.post_until_heard("hold")
        stage.wait_for_note("start", held)
        with requests_to(server) as accepted:
            server = restart(stage, server)
        pids = stage.wait_for_workers(kind.workers, other_than=pids)
        ordered += [held, *accepted]
    stage.wait_for_completed(ordered)
    stage.wait_until(lambda: not stage.notes.unasked(), "only scheduled jobs run, and they end")
    killed = survive_kill(stage, server)
    stage.wait_for_completed([killed])
    done = stage.notes.done()
    assert max(done.values()) == 1, {key: times for key, times in done.items() if times > 1}
    assert done.keys() >= {note.key for job in (*ordered, killed) for note in stage.notes.read("start", job)}
    assert len(ordered) == ROUNDS * (NAPS + 1) == len(set(ordered))
    stage.wait_until(
        lambda: [note.job for note in stage.notes.unasked()] == [killed], "the rest had ended or was asked"
    )


def restart(stage, server):
    """Restart a server as a deploy does: by SIGHUP, or by SIGTERM and another start."""
    if server.kind.reloads:
        server.process.send_signal(signal.SIGHUP)
        return server
    server.terminate()
    return stage.start(server.kind, server.port)


def survive_kill(stage, server):
    """Kill the process that runs a job, which then runs elsewhere or after another start; return its id."""
    job = server.post_until_heard("hold")
    stage.wait_for_note("start", job)
    [first] = stage.notes.read("start", job)
    if not server.kind.reloads:
        stage.start(server.kind)
    os.kill(first.pid, signal.SIGKILL)
    stage.wait_for_note("done", job)
    [last] = stage.notes.read("done", job)
    assert last.pid != first.pid
    assert last.fence > first.fence
    return job


FLASK_RUN = Kind(
    "flask-run-reload", ("-m", "flask", "--app", "{here}/host_flask.py", "run", "--reload", "--port", "{port}")
)
RELOADING = (
    uvicorn("uvicorn-reload", "--reload", "--reload-dir", "{folder}"),
    FLASK_RUN,
    django("runserver-reload"),
)
SEVERAL = (
    uvicorn("uvicorn-workers", "--workers", "2", workers=2),
    gunicorn("gunicorn-preload", "host_flask:web", "--preload"),
)


@pytest.mark.parametrize("kind", [*RELOADING, *SEVERAL], ids=lambda kind: kind.name)
def test_only_processes_that_serve_have_a_worker(stage, kind):
    """Neither a reloader's parent nor a master has one; and each that serves has."""
    server = stage.start(kind)
    pids = stage.wait_for_workers(kind.workers)
    stage.wait_for_note("done", times=2)
    assert server.process.pid not in pids
    assert stage.wait_for_workers(kind.workers) == pids
    assert {note.pid for note in stage.notes.read("start")} <= pids
    server.process.send_signal(signal.SIGINT)
    server.process.wait(60)
    stage.wait_for_workers(0)


def test_a_process_that_does_not_serve_has_none(stage):
    """To import a bound app, as a shell or a script does, starts nothing but what warns in a while."""
    script = "import host_flask, host_asgi, threading; print([each.name for each in threading.enumerate()])"
    told = stage.run([PYTHON, "-c", script])
    assert literal_eval(told) == ["MainThread", "standfast-host-look"]
    assert stage.workers() == ()
