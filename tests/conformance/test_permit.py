"""The permit of the fleet, on every store: of many who ask one has it, and a dead holder's comes to its end."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from conformance import Harness
from standfast.model.records import Kind
from standfast.stores.verb import run_procedure
from standfast.supervisor.locks import RECYCLE, give_back_permit, take_permit

SPAN = 15.0


def take(harness: Harness, holder: str, seconds: float = SPAN) -> bool:
    procedure = take_permit(harness.verbs, RECYCLE, holder, timedelta(seconds=seconds))
    return run_procedure(harness.backend.run, procedure)


def give_back(harness: Harness, holder: str) -> None:
    run_procedure(harness.backend.run, give_back_permit(harness.verbs, RECYCLE, holder))


def test_one_has_it_and_gives_it_back(harness: Harness) -> None:
    """Meanwhile nobody else gets it; who does not have it gives nothing back."""
    assert take(harness, "one")
    assert not take(harness, "two")
    give_back(harness, "two")
    assert not take(harness, "two")
    give_back(harness, "one")
    assert take(harness, "two")
    assert not take(harness, "one")


def test_it_is_renewed_by_its_holder_and_ends_with_it(harness: Harness) -> None:
    """Each renewal is for the whole span; after the last one the next who asks has it, by the store's time."""
    assert take(harness, "one")
    for _ in range(3):
        harness.clock.advance(SPAN - 1)
        assert take(harness, "one")
    harness.clock.advance(SPAN - 0.001)
    assert not take(harness, "two")
    harness.clock.advance(0.001)
    assert take(harness, "two")
    assert not take(harness, "one")
    give_back(harness, "one")
    assert not take(harness, "one")


def test_nobody_is_woken_by_it(harness: Harness) -> None:
    """It is never due: beats have nothing to tell of it."""
    assert take(harness, "one")
    worker = harness.register()
    assert harness.beat(worker).record_due_at is None
    give_back(harness, "one")
    assert harness.record(RECYCLE, Kind.PERMIT) is None


def test_of_many_at_a_time_one_has_it(harness: Harness) -> None:
    """However they meet: at first, after its end, and when it was given back."""
    for round_ in range(3):
        with ThreadPoolExecutor(8) as pool:
            holders = [f"{round_}-{number}" for number in range(8)]
            took = list(pool.map(partial(take, harness), holders))
        assert took.count(True) == 1
        if round_ == 0:
            harness.clock.advance(SPAN)
        else:
            give_back(harness, holders[took.index(True)])
