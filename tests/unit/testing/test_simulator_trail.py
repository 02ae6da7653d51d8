"""The simulator's own judgement of long jobs: each broken promise is told, and what is allowed is not."""

import math

import pytest

from simulator.trail import Trail
from standfast.model.job import ClaimRef
from standfast.worker.progress import FLUSH_LIMIT

FIRST, SECOND = ClaimRef("job", 1), ClaimRef("job", 2)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def trail(told: list[str]) -> Trail:
    return Trail(told.append)


def cursor(done: int) -> dict[str, bytes]:
    return {"cursor:items": b'{"version":1,"by":"index","done":%d}' % done}


def test_items_that_were_not_saved_may_be_done_again(trail: Trail, told: list[str]) -> None:
    """After a crash the next attempt goes on where the store says."""
    for item in range(3):
        trail.did(FIRST, item, every=2 if item < 2 else 3)
    trail.saved(FIRST, cursor(1))
    for item in range(1, 3):
        trail.did(SECOND, item, every=2)
    assert told == []


def test_an_item_that_was_saved_is_not_done_again(trail: Trail, told: list[str]) -> None:
    """Not by a later claim."""
    trail.did(FIRST, 0, every=5)
    trail.saved(FIRST, cursor(1))
    trail.did(SECOND, 0, every=5)
    assert told == ["job:2 did item 0 again, and 1 were saved"]


def test_no_item_is_left_out(trail: Trail, told: list[str]) -> None:
    """An attempt goes on right after what was saved, and a completed job has done all."""
    trail.did(FIRST, 1, every=5)
    assert told.pop() == "job:1 did item 1 after 0 were done"
    trail.check_items("job", 3)
    assert told == ["job completed with 2 of its 3 items done"]


def test_not_more_than_every_items_are_unsaved(trail: Trail, told: list[str]) -> None:
    """Also of an attempt whose claim is lost, and whose saves are refused."""
    trail.did(FIRST, 0, every=1)
    trail.saved(SECOND, cursor(5))
    trail.did(FIRST, 1, every=1)
    assert told == ["job:1 has 2 unsaved items, and may have 1"]


def test_a_cursor_does_not_go_back(trail: Trail, told: list[str]) -> None:
    """What the store has of a job grows, whoever saves it."""
    trail.saved(FIRST, {"cursor": b'{"version":1,"value":4}'})
    trail.saved(SECOND, {"cursor": b'{"version":1,"value":3}'})
    assert told == ["the cursor of job went back from 4 to 3"]


@pytest.mark.parametrize("late", [0.0, FLUSH_LIMIT])
def test_an_ending_comes_after_what_was_done(trail: Trail, told: list[str], late: float) -> None:
    """Unless the store did not take it for so long that it had to go without."""
    trail.did(FIRST, 0, math.inf)
    trail.returned(FIRST, 10.0)
    trail.ended(FIRST, 10.0 + late)
    assert told == ([] if late else ["job:1 ended after item 1, and only 0 are saved"])


def test_what_was_flushed_is_saved(trail: Trail, told: list[str]) -> None:
    """A handler that was told so relies on it."""
    trail.did(FIRST, 0, math.inf)
    trail.flushed(FIRST)
    assert told == ["job:1 flushed 1 items, and 0 are saved"]


def test_a_step_that_was_saved_does_not_run_again(trail: Trail, told: list[str]) -> None:
    """But for an attempt that has lost its claim, and cannot know."""
    trail.step_told(FIRST, "charge")
    assert told.pop() == "job:1 goes on after step charge, which is not saved"
    trail.saved(SECOND, {"step:charge": b"{}"})
    trail.step_begins(FIRST, "charge")
    assert told == []
    trail.step_begins(SECOND, "charge")
    assert told == ["job:2 runs step charge again, which was saved under fence 2"]


def test_a_signal_ends_one_wait(trail: Trail, told: list[str]) -> None:
    """In every attempt the same one, and signals are taken in their order."""
    trail.received("job", 0, "b")
    trail.received("job", 0, "b")
    assert told == []
    trail.received("job", 1, "b")
    assert told.pop() == "job received b twice"
    trail.received("job", 0, "a")
    assert told.pop() == "wait 0 of job got a, and b before"
    trail.check_signals("job", ["a", "b"])
    assert told == ["job received ['b', 'b'], and was sent ['a', 'b']"]
