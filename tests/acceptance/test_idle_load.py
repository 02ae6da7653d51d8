"""An idle fleet asks the store for work no more often when it is large: ten workers as often as one.

By default in virtual time, for many minutes; `make prove NAME=idle_load` lets real processes be idle for a minute,
on each store. What they call is written down where it is made. Beats are not counted: each worker has its own.
"""

import time

import pytest
from fleet import PROVE, sizes

from game.counted import environment
from game.counted.address import CountedUrl
from game.counted.journal import read_calls
from standfast.settings import Settings
from virtual_fleet import Fleet as VirtualFleet
from virtual_fleet import play

FLEETS = (1, 10)
APART = 0.2
"""How far the load of two fleets may be apart, as a part of the smaller one's."""

MINUTES = 20
MEASURED = sizes(short=0.0, full=60.0)


def virtual_load(workers: int) -> float:
    """Return the calls in a minute, apart from beats, of a fleet in virtual time."""
    calls = []

    async def scenario(fleet: VirtualFleet) -> None:
        await fleet.start_all(workers)
        since = fleet.clock.boot()
        await fleet.until(since + 60 * MINUTES)
        calls.extend(verb for at, verb in fleet.store.calls if at >= since and verb != "beat")

    play(scenario, Settings(url="memory://"))
    return len(calls) / MINUTES


@pytest.mark.timeout(120)
def test_idle_load():
    """Twenty minutes of one worker and of ten, in virtual time."""
    one, ten = map(virtual_load, FLEETS)
    assert ten == pytest.approx(one, rel=APART)


@pytest.mark.full_size
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis"])
def test_idle_load_of_processes(store, request, tmp_path, fleet_on, measured):
    """A minute of one worker and of ten."""
    url = f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    journal = tmp_path / "calls"
    fleet = fleet_on(str(CountedUrl(url, journal)))
    loads = []
    for workers in FLEETS:
        fleet.start_workers(workers - len(fleet.trees), environment=environment())
        fleet.wait_until_acquainted()
        since = time.time()
        time.sleep(MEASURED)
        children = {tree.process.pid for tree in fleet.trees} | {worker.info.pid for worker in fleet.workers()}
        calls = [call for call in read_calls(journal) if call.at >= since and call.pid in children]
        loads.append(sum(call.verb != "beat" for call in calls))
    one, ten = loads
    measured(f"{one} calls in a minute by one worker, {ten} by ten, apart from beats")
    assert PROVE
    assert ten == pytest.approx(one, rel=APART)
