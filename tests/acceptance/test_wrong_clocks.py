"""A worker whose machine has a wrong clock, or one that is set while it works, starts jobs by the store's clock.

The clock is put into real processes, supervisor and child alike (wrong_clock/): so nothing has to be installed, and
the machine's own clock stays as it is. On SQLite there is nothing to show, as the store goes by that clock.

Short by default: then "on time" only means that the wrong clock did not count. `make prove NAME=wrong_clocks` wants
the jobs to start within a twentieth of a second, whichever way the clock is wrong.
"""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from fleet import sizes
from shopfloor import Shop

from standfast.model.states import State

WRONG_CLOCK = Path(__file__).parent / "wrong_clock"
WRONG_BY = 45.0
LATEST = sizes(short=10.0, full=0.05)
"""Seconds; in any case fewer than the clock is wrong by."""

DELAYS = (3.0, 3.3, 3.6, 4.5)


@pytest.fixture(params=["postgres", "redis"])
def shop(request, tmp_path, monkeypatch):
    """Give a shop on a server; its clock is a file beside it, right at first."""
    monkeypatch.setenv("STANDFAST_URL", request.getfixturevalue(f"{request.param}_url"))
    with Shop(tmp_path / "shop", "wrong_clock_app.py") as shop:
        set_clock(shop, 0.0)
        yield shop


def set_clock(shop, wrong_by):
    """Let the clock of the workers be wrong by so much from now on."""
    file = shop.folder / "clock"
    fresh = shop.folder / "clock.new"
    fresh.write_text(str(wrong_by))
    fresh.replace(file)


def start_worker(shop):
    shop.worker(
        STANDFAST_URL=os.environ["STANDFAST_URL"],
        PYTHONPATH=str(WRONG_CLOCK),
        WRONG_CLOCK=str(shop.folder / "clock"),
    )


def enqueue(shop):
    """Enqueue jobs that are due in a few seconds by the store's clock."""
    when_started = shop.tasks.when_started
    return [when_started.options(delay=timedelta(seconds=delay)).enqueue() for delay in DELAYS]


def lateness(handles, wrong_by):
    """Return by how much each was late; the processes that ran them must have had the wrong clock."""
    late = []
    for handle in handles:
        right, believed = handle.result(timeout=60)
        assert believed - right == pytest.approx(wrong_by, abs=1.0)
        late.append(right - handle.job().run_at.timestamp())
    return late


@pytest.mark.timeout(180)
@pytest.mark.parametrize("shop", sizes(short=["redis"], full=["postgres", "redis"]), indirect=True)
@pytest.mark.parametrize("wrong_by", sizes(short=[WRONG_BY], full=[-WRONG_BY, WRONG_BY]))
def test_a_clock_that_is_wrong(shop, wrong_by, measured):
    """Jobs that are claimed ahead wait for their time as the store tells it."""
    set_clock(shop, wrong_by)
    start_worker(shop)
    late = lateness(enqueue(shop), wrong_by)
    measured(f"clock wrong by {wrong_by:+g} s: late by {max(late) * 1000:.1f} ms at most")
    assert min(late) >= 0
    assert max(late) < LATEST


@pytest.mark.timeout(180)
@pytest.mark.parametrize("shop", sizes(short=["postgres"], full=["postgres", "redis"]), indirect=True)
@pytest.mark.parametrize("step", sizes(short=[-WRONG_BY], full=[-WRONG_BY, WRONG_BY]))
def test_a_clock_that_is_set_while_jobs_are_held(shop, step, measured):
    """The worker holds them already; that its clock is set changes nothing, neither then nor for those after."""
    start_worker(shop)
    held = enqueue(shop)
    for handle in held:
        shop.become(handle, State.HELD)
    set_clock(shop, step)
    late = lateness(held, step)
    late += lateness(enqueue(shop), step)
    measured(f"clock set by {step:+g} s: late by {max(late) * 1000:.1f} ms at most")
    assert min(late) >= 0
    assert max(late) < LATEST
