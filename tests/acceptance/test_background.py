"""Work in the background of real processes: a stop ends it in good order, and what fails can be read afterwards."""

import signal
import subprocess
import sys
import threading

import pytest
from shopfloor import PATIENCE, Shop, environment, eventually

from standfast import BackgroundFullError, BackgroundState

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def shop(tmp_path):
    """Give a shop with work in its background."""
    with Shop(tmp_path / "shop", "background_app.py") as opened:
        yield opened


def done(shop, job=None):
    """Return what was done so far."""
    return [line["what"] for line in shop.ledger(job)]


def serve(shop, how, begun, **env):
    """Start a server, and stop it once all of this has begun; return its exit code and what it said."""
    command = [sys.executable, str(shop.module), how]
    with subprocess.Popen(command, env=environment(**env), stderr=subprocess.PIPE, text=True) as server:
        eventually(lambda: {f"{name} began" for name in begun} <= set(done(shop)), "all has begun")
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=PATIENCE)
    return server.returncode, said


def test_a_stop_ends_work_in_threads(shop):
    """Who heeds it tidies up; who does not is named, and keeps the process no longer than the grace.

    What fails at the last moment is an incident, which the command line shows, and without its secret.
    """
    code, said = serve(shop, "threads", ["thread", "coroutine", "stubborn", "fail"], BACKGROUND_GRACE="1.5")
    assert code == 3
    assert sorted(done(shop)[-2:]) == ["coroutine tidied up", "thread tidied up"]
    [left] = [line for line in said.splitlines() if "did not end" in line]
    assert left.startswith("work in the background did not end within 1.5 s: stubborn (")
    assert "thread" not in left
    [incident] = shop.asked("incidents", "list")
    assert incident["summary"] == "ConnectionError: refused for •••• in work in the background, fail"
    shown = shop.standfast("incidents", "show", incident["id"]).stdout
    assert "in fail" in shown
    assert "open-sesame" not in shown + said


def test_a_stop_ends_work_on_an_event_loop(shop):
    """The loop goes on while it is closed: coroutines tidy up, and are cancelled after the grace."""
    code, said = serve(shop, "loop", ["thread", "coroutine", "sleeper"], BACKGROUND_GRACE="1.5")
    assert (code, said) == (0, "")
    assert sorted(done(shop)[3:5]) == ["coroutine tidied up", "thread tidied up"]
    assert done(shop)[5:] == ["sleeper was cancelled", "closed"]


def test_what_finds_no_room_waits_is_rejected_or_becomes_a_job(shop):
    """The job is run by a worker, while nothing has changed here."""
    app, tasks, free = shop.app, shop.tasks, threading.Event()
    held = [app.background(free.wait, PATIENCE) for _ in range(4)]
    waiting = app.background(tasks.double, 1)
    with pytest.raises(BackgroundFullError):
        app.background.options(when_full="reject")(tasks.double, 2)
    job = app.background.options(when_full="enqueue")(tasks.double, 3)
    assert (waiting.state, job.state) == (BackgroundState.WAITING, BackgroundState.ENQUEUED)
    shop.drain()
    assert job.result(PATIENCE) == 6
    assert waiting.state is BackgroundState.WAITING
    free.set()
    assert waiting.result(PATIENCE) == 2
    assert all(work.ended(PATIENCE) for work in held)


def test_sleeping_handlers_wake_when_they_should_end(shop):
    """In a thread, on the loop and in a process of its own; by a cancellation, and by a stop of the worker.

    The grace is longer than this test waits: whoever is not woken makes it fail. Work that a handler began ends
    with its worker.
    """
    tasks = [shop.tasks.sleep, shop.tasks.sleep_alone, shop.tasks.asleep]
    cancelled, stopped = ([task.enqueue() for task in tasks] for _ in range(2))
    shop.tasks.begin_work.enqueue()
    worker = shop.worker("--grace", "120", BACKGROUND_GRACE="120")
    for job in [*cancelled, *stopped]:
        eventually(lambda job=job: "sleep began" in done(shop, job), "it sleeps")
    for job in cancelled:
        job.cancel()
    for job in cancelled:
        assert shop.become(job, "cancelled").reason == "requested"
    assert "work of a job began" in done(shop)
    assert worker.stop() == 0
    for job in stopped:
        assert done(shop, job) == ["sleep began", "sleep was woken"]
        assert (job.status(), job.job().attempt) == ("ready", 0)
    assert [done(shop, job) for job in cancelled[:2]] == [["sleep began", "sleep was woken"]] * 2
    assert done(shop)[-1] == "work of a job tidied up"
