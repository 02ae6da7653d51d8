"""`standfast stats --since`: what workers have done, task by task."""

import pytest
from cli_world import WORKER, answer, assert_refused

from figures_stage import Stage
from standfast.model.clock import SystemClock
from standfast.model.concurrency import run_without_loop
from standfast.model.states import Move


@pytest.fixture
def counted(world):
    """Give a store in which a worker has told what it did."""
    stage = Stage(world.backend, SystemClock())
    stage.count(*[Move.COMPLETE] * 18, Move.RETRY, Move.DIE, seconds=0.2, late=0.004)
    stage.count(Move.CANCEL, Move.SNOOZE, task="print", queue="paper", seconds=30, late=7)
    run_without_loop(stage.publish())


@pytest.mark.usefixtures("counted")
def test_figures_for_programs(standfast):
    """Counts and percentiles by queue and task, the busiest first, and in all; else as without it."""
    stats = answer(standfast("stats", "--json", "--since", "1h"))
    assert stats["states"] == answer(standfast("stats", "--json"))["states"]
    send, printed = stats["figures"]["tasks"]
    assert (send["task"], send["queue"], send["completed"], send["failed"], send["dead"]) == (
        "send",
        "mail",
        18,
        1,
        1,
    )
    assert (printed["cancelled"], printed["given_back"], printed["run_seconds"]) == (1, 1, 60.0)
    assert 0.18 < send["run"]["p50"] < 0.26
    assert 0.004 <= send["lag"]["p95"] < 0.006
    assert stats["figures"]["total"]["completed"] == 18


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("since", ["1h", "24h", "7d", "30d"])
def test_figures_for_people(standfast, since):
    """A line for each task, whichever resolution is read."""
    words = standfast("stats", "--since", since).stdout
    [line] = [line.split() for line in words.splitlines() if line.startswith("send")]
    assert line[:5] == ["send", "mail", "18", "1", "1"]
    assert WORKER in words


def test_nothing_has_ended(standfast):
    """An empty span says so; without --since nothing is said of it."""
    assert "Nothing has ended." in standfast("stats", "--since", "1h").stdout
    assert "Nothing has ended." not in standfast("stats").stdout
    assert answer(standfast("stats", "--since", "7d", "--json"))["figures"]["tasks"] == []


@pytest.mark.parametrize("since", ["soon", "31d", "5s"])
def test_a_span_that_cannot_be(standfast, since):
    """It is refused with what to write."""
    assert_refused(standfast("stats", "--since", since), 2, "--since: ")
