"""How many jobs a worker holds ahead of their time: those that will find a place here."""

from datetime import UTC, datetime

import pytest

from standfast.model.job import Claim, ClaimRef
from standfast.settings import Settings
from standfast.testing import FakeClock
from standfast.worker.control import Control, Slots
from standfast.worker.lease import Lease
from standfast.worker.timers import LASTS, MOST_AHEAD, Load

PLACES = 20
LOOK_AHEAD = 10.0
SETTINGS = Settings(url="memory://", concurrency=PLACES, look_ahead=LOOK_AHEAD)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Claim(ClaimRef("job", 1), "task", 1, b"", "default", 0, NOW, attempt=0, crashes=0, max_attempts=5)


class Idle:
    """A completer without anything to do."""

    crowded = False


class Held:
    """So many claims that have not started."""

    due = ahead = soon = 0

    def due_within(self, _seconds: float) -> int:
        return self.soon


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def slots() -> Slots:
    return Slots(PLACES)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def load(clock: FakeClock, slots: Slots, held: Held) -> Load:
    return Load(clock, slots, held, Idle(), SETTINGS)  # type: ignore[arg-type]


def run(load: Load, clock: FakeClock, lasts: float, times: int = 100) -> None:
    for _ in range(times):
        clock.advance(lasts)
        load.ended(lasts)


def start(slots: Slots, clock: FakeClock) -> None:
    for _ in range(PLACES):
        control = Control(JOB, Lease(clock, 15.0, 1.0, 5.0), lambda *_: None)
        control.started_boot = clock.boot()
        slots.take(control)


def test_until_a_job_has_ended_each_is_expected_to_last_a_while(load: Load) -> None:
    assert load.wanted_ahead == PLACES * LOOK_AHEAD / LASTS


@pytest.mark.parametrize(("lasts", "wanted"), [(4.0, 50), (100.0, 20), (0.001, MOST_AHEAD), (0.0, MOST_AHEAD)])
def test_as_many_as_can_start_in_time_one_after_the_other(
    load: Load, held: Held, clock: FakeClock, lasts: float, wanted: int
) -> None:
    run(load, clock, lasts)
    assert load.wanted_ahead == wanted
    held.ahead = wanted - 1
    assert load.wanted_ahead == 1


def test_places_that_slow_jobs_have_taken_are_not_promised_to_others(
    load: Load, slots: Slots, clock: FakeClock
) -> None:
    run(load, clock, 100.0)
    start(slots, clock)
    assert load.wanted_ahead == 2


def test_places_of_jobs_that_outlast_others_are_not_promised_to_any(
    load: Load, slots: Slots, clock: FakeClock
) -> None:
    run(load, clock, 0.1)
    start(slots, clock)
    assert load.wanted_ahead == MOST_AHEAD
    clock.advance(LOOK_AHEAD + 1)
    assert load.wanted_ahead == 0


def test_what_never_started_tells_nothing(load: Load) -> None:
    load.ended(None)
    assert load.lasts is None


def test_jobs_that_have_no_end_are_counted_as_long(load: Load, slots: Slots, clock: FakeClock) -> None:
    load.overbooked()
    assert load.lasts is None
    start(slots, clock)
    clock.advance(1.0)
    load.overbooked()
    assert load.lasts == 2.0
    for control in slots.running():
        slots.leave(control)
    run(load, clock, 5.0)
    start(slots, clock)
    clock.advance(1.0)
    load.overbooked()
    assert load.lasts == pytest.approx(5.0, abs=0.01)


def test_who_had_to_give_back_takes_fewer_for_a_while(load: Load, held: Held, clock: FakeClock) -> None:
    run(load, clock, 0.001)
    held.ahead = 50
    load.too_many_ahead()
    held.ahead = 0
    assert load.wanted_ahead == 50
    for _ in range(5):
        load.not_too_many_ahead()
    assert load.wanted_ahead == MOST_AHEAD
    load.too_many_ahead()
    assert load.wanted_ahead == PLACES


def test_jobs_that_may_be_due_together_need_a_place_each(
    load: Load, held: Held, slots: Slots, clock: FakeClock
) -> None:
    held.ahead, held.soon = 15, 3
    assert load.wanted_together == 5
    assert load.wanted_soon == 17
    start(slots, clock)
    assert load.wanted_together == load.wanted_soon == 0
