"""What a supervisor measures itself: its disks, and how fast its store answers."""

import socket

from holdfast.alerts.scout import Here
from holdfast.settings import Settings
from holdfast.supervisor.measuring import EXAMINED_EVERY, LEAST_CALLS, Measures
from holdfast.testing.clock import FakeClock


async def test_disks_are_measured_by_machine_and_place_every_ten_minutes(tmp_path):
    """Of places that are there; a store in a file is its folder."""
    clock = FakeClock()
    settings = Settings(
        url=f"sqlite:///{tmp_path}/jobs.db", files=str(tmp_path / "gone"), incidents_dir=str(tmp_path)
    )
    measures, here = Measures(settings, clock), Here(clock.now())
    first = await measures.seldom(here)
    [(place, share)] = first.disks.items()
    assert place == f"{socket.gethostname()}:{tmp_path}"
    assert 0 < share <= 1
    assert await measures.seldom(here) == here
    clock.advance(EXAMINED_EVERY)
    assert (await measures.seldom(here)).disks.keys() == first.disks.keys()


async def test_the_store_is_as_slow_as_the_median_of_its_last_calls():
    """Few tell nothing."""
    clock = FakeClock()
    measures = Measures(Settings(url="memory://"), clock)

    async def run(seconds):
        clock.advance(seconds)

    once = measures.timed(run)
    for number in range(LEAST_CALLS):
        assert measures.store_seconds is None
        await once(10.0 if number == 0 else 2.0)
    assert measures.store_seconds == 2.0
