"""A worker's idea of the store's time: never ahead of it, and close behind."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast.testing import FakeClock
from standfast.worker.storecalls import StoreClock

STORE = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def machine() -> FakeClock:
    return FakeClock()


@pytest.fixture
def clock(machine: FakeClock) -> StoreClock:
    return StoreClock(machine)


def behind(clock: StoreClock, told: datetime) -> float:
    return (told - clock.now()).total_seconds()


def test_until_it_has_heard_it_is_the_machines(clock: StoreClock, machine: FakeClock) -> None:
    assert clock.now() == machine.now()
    assert clock.boot() == machine.boot()


def test_what_an_answer_tells_is_past_when_it_comes(clock: StoreClock, machine: FakeClock) -> None:
    """So that what was due at the store is due here, and nothing is earlier than that."""
    sent_at = machine.boot()
    machine.advance(0.5)
    clock.learn(sent_at, STORE, machine.boot())
    assert clock.now() == STORE
    machine.advance(10)
    assert clock.now() == STORE + timedelta(seconds=10)


def test_the_wall_clock_of_the_machine_does_not_count(clock: StoreClock, machine: FakeClock) -> None:
    clock.learn(machine.boot(), STORE, machine.boot())
    machine.step_wall(3600)
    assert clock.now() == STORE


def test_a_quick_answer_narrows_what_slow_ones_left_open(clock: StoreClock, machine: FakeClock) -> None:
    """Whichever came first: it is never ahead of the store, and behind by less than the quickest answer took."""
    for wait in (2.0, 0.1, 3.0):
        sent_at = machine.boot()
        machine.advance(wait)
        told = STORE + timedelta(seconds=machine.boot() - 1000.0 - wait / 2)  # the store spoke half-way
        clock.learn(sent_at, told, machine.boot())
    assert 0 <= behind(clock, STORE + timedelta(seconds=machine.boot() - 1000.0)) <= 0.06


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_store_whose_clock_was_set_is_believed(clock: StoreClock, machine: FakeClock, step: float) -> None:
    clock.learn(machine.boot(), STORE, machine.boot())
    machine.advance(1)
    told = STORE + timedelta(seconds=1 + step)
    clock.learn(machine.boot(), told, machine.boot())
    assert clock.now() == told


def test_clocks_that_grow_apart_are_followed(clock: StoreClock, machine: FakeClock) -> None:
    """A store whose clock goes slower by a tenth of what is allowed for is not overtaken by an hour of that."""
    for second in range(0, 3600, 10):
        told = STORE + timedelta(seconds=second * (1 - 0.00002))
        clock.learn(machine.boot() - 0.001, told, machine.boot() + 0.001)
        assert -0.01 < behind(clock, told) < 0.01
        machine.advance(10)


def test_a_store_with_the_clock_of_this_machine_is_not_learned_about(machine: FakeClock) -> None:
    """There is nothing between the two, and a clock that is set is set for both."""
    clock = StoreClock(machine, same=True)
    clock.learn(machine.boot() - 1, machine.now() - timedelta(seconds=0.5), machine.boot())
    assert clock.now() == machine.now()
    machine.step_wall(3600)
    assert clock.now() == machine.now()


def test_what_is_heard_late_does_not_undo_what_is_known(clock: StoreClock, machine: FakeClock) -> None:
    """The word of a beat comes by way of the supervisor, and may be older than that of a claim."""
    began_at = machine.boot()
    machine.advance(1)
    after_the_step = STORE + timedelta(seconds=3600)
    clock.learn(machine.boot(), after_the_step, machine.boot())
    clock.learn(began_at, STORE, began_at)
    assert clock.now() == after_the_step


def test_what_is_heard_late_still_narrows_what_is_possible(clock: StoreClock, machine: FakeClock) -> None:
    early = machine.boot()
    machine.advance(1)
    clock.learn(machine.boot() - 0.5, STORE + timedelta(seconds=0.75), machine.boot())
    assert behind(clock, STORE + timedelta(seconds=1)) == pytest.approx(0.25, abs=0.001)
    clock.learn(early, STORE, early)
    assert behind(clock, STORE + timedelta(seconds=1)) == pytest.approx(0.0, abs=0.001)
