"""A handler that blocks the event loop is named with its job and line; a worker that only stood still is not."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from fleet import sizes
from shopfloor import Shop, eventually

from standfast.model.states import State

pytestmark = pytest.mark.timeout(180)

STOPPED_FOR = 2.0


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path, monkeypatch):
    """Give a shop on one store after the other, whose handlers block."""
    if request.param == "postgres":
        monkeypatch.setenv("STRAY_URL", request.getfixturevalue("postgres_url"))
    with Shop(tmp_path / "shop", "stray_app.py") as opened:
        yield opened


def line_of(shop, code):
    """Return the number of the line of the app that has this in it."""
    lines = Path(shop.module).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


def blocked(worker):
    """Return the lines about blocked event loops."""
    return [line for line in worker.words.splitlines() if "blocked the event loop" in line or "interpreter" in line]


@pytest.mark.parametrize("shop", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_a_handler_that_sleeps_on_the_loop_is_named_with_its_line(shop):
    """The first of the place is told at once, with task, job and line; the next ones within a minute are not."""
    worker = shop.worker()
    handle = shop.tasks.sleep_on_the_loop.enqueue(seconds=0.5)

    [line] = eventually(lambda: blocked(worker), "a warning")

    where = f"shop.py:{line_of(shop, 'time.sleep(seconds)')}"
    found = re.search(
        rf"sleep_on_the_loop {handle.id[-8:]} blocked the event loop for (\d+) ms at \S*{where}: ", line
    )
    assert found, line
    assert 250 <= int(found[1]) <= 1500
    assert "use `await`, or write it as a plain `def`" in line
    again = [shop.tasks.sleep_on_the_loop.enqueue(seconds=0.4) for _ in range(3)]
    shop.settled([handle, *again])

    def burn():
        """What only waits for a processor blocks nobody: on a busy machine it may take several."""
        shop.settled([shop.tasks.burn_on_the_loop.enqueue(seconds=0.8)])
        return "burn_on_the_loop" in "".join(blocked(worker))

    eventually(burn, "a warning about another place")
    assert len([each for each in blocked(worker) if "sleep_on_the_loop" in each]) == 1
    assert {each.status() for each in [handle, *again]} == {State.COMPLETED}


@pytest.mark.parametrize("shop", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_a_worker_that_was_stopped_is_not_said_to_block(shop):
    """SIGSTOP is nobody's fault, whatever ran; nor does a handler that awaits block anything."""
    worker = shop.worker()
    handle = shop.tasks.nap.enqueue(seconds=3 * STOPPED_FOR)
    eventually(lambda: handle.status() == State.RUNNING, "it runs")
    [child] = worker.children

    for _ in range(3):
        os.kill(child, signal.SIGSTOP)
        time.sleep(STOPPED_FOR / 2)  # a stopped process gives no sign that could be waited for
        os.kill(child, signal.SIGCONT)
        time.sleep(STOPPED_FOR / 8)
    shop.settled([handle])

    assert handle.status() == State.COMPLETED
    assert blocked(worker) == []


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_it_can_be_turned_off(shop):
    """With `blocked_warning` at none, nobody looks."""
    worker = shop.worker(STANDFAST_BLOCKED_WARNING="none")
    handle = shop.tasks.sleep_on_the_loop.enqueue(seconds=0.5)
    shop.settled([handle])
    assert worker.stop() == 0
    assert blocked(worker) == []
