"""What a supervisor measures itself: its disks, and how fast its store answers."""

import asyncio
import socket
import threading

import pytest

from standfast.errors import StoreUnavailableError
from standfast.model.alerts import AlertRule, Check
from standfast.observe.alerts.monitor import LocalView
from standfast.settings import Settings
from standfast.stores.doctor import Examination
from standfast.supervisor.probes import LEAST_CALLS, SERVER_EVERY, Measures, PremisesLook, StorageState, Surveyor
from standfast.testing.clock import FakeClock

RULES = [AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9)]


def test_disks_are_measured_by_machine_and_place(tmp_path):
    """Of places that are there; a store in a file is its folder."""
    settings = Settings(
        url=f"sqlite:///{tmp_path}/jobs.db", files=str(tmp_path / "gone"), incidents_dir=str(tmp_path)
    )
    [(place, share)] = PremisesLook(settings)().disks.items()
    assert place == f"{socket.gethostname()}:{tmp_path}"
    assert 0 < share <= 1


async def test_a_disk_that_never_answers_keeps_nobody():
    """Neither who asks nor the end of the process; and it is asked once, until it answers."""
    answers, asked = threading.Event(), []

    def look():
        asked.append(threading.current_thread())
        answers.wait(30)
        return StorageState(disks={"me:/": 0.5})

    survey = Surveyor(look, patience=0.02)
    assert [await survey() for _ in range(3)] == [None] * 3
    assert len(asked) == 1
    assert asked[0].daemon
    answers.set()
    async with asyncio.timeout(10):
        while (found := await survey()) is None:
            pass
    assert (found.disks, len(asked)) == ({"me:/": 0.5}, 1)


async def test_a_look_that_fails_came_to_nothing_and_the_next_one_may_not():
    outcomes = iter([OSError("it went away"), StorageState()])

    def look():
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    survey = Surveyor(look)
    assert [await survey(), await survey()] == [None, StorageState()]


@pytest.mark.parametrize(
    ("shares", "news"),
    [
        ([0.5, 0.5], [True, False]),  # what was before it came, it does not know
        ([0.95, 0.96, 0.5, 0.5], [True, True, True, False]),
    ],
)
def test_that_a_disk_is_full_or_no_more_is_news_until_it_is_told(shares, news):
    clock = FakeClock()
    measures, found = Measures(clock), []
    for share in shares:
        here = LocalView(clock.now(), disks={"me:/": share})
        found.append(measures.is_news(here, RULES))
        measures.not_told()
        assert measures.is_news(here, RULES) is found[-1]
        measures.told(here, RULES)
    assert found == news
    assert not measures.is_news(LocalView(clock.now(), disks={"me:/": 1.0}), [])


@pytest.mark.parametrize("answers", [True, False])
def test_the_server_is_asked_every_ten_minutes_and_sooner_where_it_does_not_answer(answers):
    """Disks, which cost nothing, are looked at each time."""
    asked, clock = [], FakeClock()

    def examine(settings):
        asked.append(settings)
        if not answers:
            raise StoreUnavailableError("away")
        return Examination((), usable=True)

    look = PremisesLook(Settings(url="redis://localhost/1"), examine=examine, monotonic=clock.boot)
    for _ in range(3):
        assert look().findings == (() if answers else None)
        clock.advance(60)
    assert len(asked) == (1 if answers else 3)
    clock.advance(SERVER_EVERY)
    look()
    assert len(asked) == (2 if answers else 4)


async def test_the_store_is_as_slow_as_the_median_of_its_last_calls():
    """Few tell nothing."""
    clock = FakeClock()
    measures = Measures(clock)

    async def run(seconds):
        clock.advance(seconds)

    once = measures.timed(run)
    for number in range(LEAST_CALLS):
        assert measures.store_seconds is None
        await once(10.0 if number == 0 else 2.0)
    assert measures.store_seconds == 2.0
