"""How many jobs a worker holds ahead of their time: those that will find a place here."""

import pytest

from holdfast.testing import FakeClock
from holdfast.worker.load import LASTS, MOST_AHEAD, Load

PLACES = 20
LOOK_AHEAD = 10.0


class Idle:
    """A completer without anything to do."""

    crowded = False


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def load(clock: FakeClock) -> Load:
    return Load(clock, PLACES, Idle(), LOOK_AHEAD)  # type: ignore[arg-type]


def run(load: Load, clock: FakeClock, lasts: float, times: int = 100) -> None:
    for _ in range(times):
        load.started()
        started_at = clock.boot()
        clock.advance(lasts)
        load.ended(started_at)


def test_until_a_job_has_ended_each_is_expected_to_last_a_while(load: Load) -> None:
    assert load.wanted_ahead == PLACES * LOOK_AHEAD / LASTS


@pytest.mark.parametrize(("lasts", "wanted"), [(4.0, 50), (100.0, 20), (0.001, MOST_AHEAD), (0.0, MOST_AHEAD)])
def test_as_many_as_can_start_in_time_one_after_the_other(
    load: Load, clock: FakeClock, lasts: float, wanted: int
) -> None:
    run(load, clock, lasts)
    assert load.wanted_ahead == wanted
    load.ahead = lambda: wanted - 1
    assert load.wanted_ahead == 1


def test_places_that_slow_jobs_have_taken_are_not_promised_to_others(load: Load, clock: FakeClock) -> None:
    run(load, clock, 100.0)
    for _ in range(PLACES):
        load.started()
    assert load.wanted_ahead == 2


def test_what_never_started_tells_nothing(load: Load) -> None:
    load.started()
    load.ended(0.0)
    assert load.lasts is None


def test_jobs_that_have_no_end_are_counted_as_long(load: Load, clock: FakeClock) -> None:
    load.last_at_least(2.0)
    assert load.lasts == 2.0
    run(load, clock, 5.0)
    load.last_at_least(2.0)
    assert load.lasts == pytest.approx(5.0, abs=0.01)


def test_who_had_to_give_back_takes_fewer_for_a_while(load: Load, clock: FakeClock) -> None:
    run(load, clock, 0.001)
    load.too_many_ahead(50)
    assert load.wanted_ahead == 50
    for _ in range(5):
        load.not_too_many_ahead()
    assert load.wanted_ahead == MOST_AHEAD
    load.too_many_ahead(0)
    assert load.wanted_ahead == PLACES


def test_jobs_that_may_be_due_together_need_a_place_each(load: Load) -> None:
    load.ahead, load.soon = lambda: 15, lambda: 3
    assert load.wanted_together == 5
    assert load.wanted_soon == 17
    for _ in range(PLACES):
        load.started()
    assert load.wanted_together == load.wanted_soon == 0
