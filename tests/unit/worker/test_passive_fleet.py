"""A fleet on a store that rings no bell: one look in ten seconds serves all, and somebody always makes it.

The workload is that of the scheduling game; time is virtual.
"""

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from game.workload import LIVE_AHEAD, make_workload
from standfast.settings import Settings
from virtual_fleet import PASSIVE, Fleet, play

WORK = 0.083
END = 660.0
EXACT = 0.001
"""Seconds: timers are exact in virtual time."""


@pytest.mark.parametrize("workers", [1, 2, 5, 10])
def test_a_whole_fleet_looks_as_often_as_one_worker(workers: int) -> None:
    """Each comes at a random moment of the first nine seconds, and some jobs only ten seconds before their time."""

    async def scenario(fleet: Fleet) -> None:
        workload = make_workload(600, seed=workers)
        random = Random(workers)
        fleet.enqueue(workload.planned, WORK)
        comes = [(random.uniform(0, 9), fleet.start) for _ in range(workers)]
        lives = [(at, lambda at=at: fleet.enqueue([at + LIVE_AHEAD], WORK)) for at in workload.live]
        for at, act in sorted([*comes, *lives], key=lambda event: event[0]):
            await fleet.until(at)
            act()
        await fleet.until(END)
        delays = fleet.delays()
        assert min(delays) > -EXACT
        assert max(delays) < EXACT
        assert 65 <= len(fleet.called("claim")) <= 70
        assert len(fleet.starters()) == workers

    play(scenario, PASSIVE, silent=True)


def test_who_joins_does_not_look_where_somebody_just_has() -> None:
    async def scenario(fleet: Fleet) -> None:
        await fleet.until(1)
        fleet.start()
        await fleet.until(4)
        fleet.start()
        await fleet.until(9)
        assert len(fleet.called("claim")) == 1

    play(scenario, PASSIVE, silent=True)


def test_a_fleet_that_has_just_come_looks_once_in_the_first_slot() -> None:
    """Each heard of few others when it came; but all beat again before the slot begins."""

    async def scenario(fleet: Fleet) -> None:
        for place in range(10):
            await fleet.until(5.2 + 0.35 * place)
            fleet.start()
        await fleet.until(15)
        assert len(fleet.called("claim", since=9.9)) == 1

    play(scenario, PASSIVE, silent=True)


def until_looked_after(fleet: Fleet, since: float) -> float:
    """Return how long after a moment the next look came."""
    return min(fleet.called("claim", since=since)) - since


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("seconds", [31.0, 34.5, 39.0, 39.8])
def test_when_one_of_them_ends_somebody_looks_for_what_it_had(end: str, seconds: float) -> None:
    """After a stop as soon as beats tell, after a kill when its lease is over; then all goes on as before."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(3)
        await fleet.until(30.5)
        fleet.enqueue([48.0] * 30)
        await fleet.until(seconds)
        victim = fleet.trees[1]
        if end == "kill":
            fleet.kill(victim)
            found_within = fleet.settings.lease + fleet.settings.beat_every + 1
        else:
            victim.stop()
            found_within = fleet.settings.beat_every + 1
        await fleet.until(105)
        assert until_looked_after(fleet, seconds) <= found_within
        delays = fleet.delays()
        assert min(delays) > -EXACT
        assert max(delays) < (EXACT if end == "stop" else found_within)
        assert 2 <= len(fleet.called("claim", since=80.5)) <= 3

    play(scenario, PASSIVE, silent=True)


def test_what_a_killed_worker_held_is_looked_for_when_it_was_buried() -> None:
    """No bell tells of it, so who buried it looks, and nobody waits for the next turn."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(3)
        await fleet.until(30)
        fleet.enqueue([80.0] * 5)
        await fleet.until(70.2)
        holder = next(iter(fleet.held()))
        tree = next(tree for tree in fleet.trees if fleet.worker_process[holder] in tree.children)
        fleet.kill(tree)
        await fleet.until(110)
        [buried_at] = fleet.called("bury")
        assert until_looked_after(fleet, buried_at) <= fleet.settings.beat_every + 1
        assert max(fleet.delays()) <= buried_at - 80 + fleet.settings.beat_every + 1

    play(scenario, PASSIVE, silent=True)


def test_a_crashed_child_is_replaced_and_what_it_held_is_looked_for() -> None:
    """Its supervisor gives the jobs back at once, and has a child look."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(2)
        await fleet.until(30)
        fleet.enqueue([48.0] * 5)
        await fleet.until(40.5)
        holder = next(iter(fleet.held()))
        fleet.worker_process[holder].end(-9)
        await fleet.until(60)
        assert max(fleet.delays()) < EXACT

    play(scenario, PASSIVE, silent=True)


def test_what_one_could_not_take_others_look_for() -> None:
    """Whoever leaves something does not say that it has looked; so others do, as soon as that is overdue."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(4)
        fleet.enqueue([25.0, 25.0, 35.0, 35.0, 45.0, 45.0, 55.0, 55.0], lasts=30.0)
        await fleet.until(98)
        fleet.enqueue([116.0 + place / 100 for place in range(12)], lasts=30.0)
        await fleet.until(150)
        assert max(fleet.delays()) < EXACT
        assert {len(fleet.started_by(worker)) for worker in fleet.starters()} == {5}

    play(scenario, replace(PASSIVE, concurrency=3), silent=True)


def test_what_went_back_for_want_of_a_place_is_looked_for_when_there_is_one() -> None:
    """No bell tells even of one's own returns."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(1)
        fleet.enqueue([22.0, 22.0, 22.1], lasts=3.0)
        await fleet.until(29)
        assert max(fleet.delays()) == pytest.approx(2.9, abs=0.1)

    play(scenario, replace(PASSIVE, concurrency=2), silent=True)


@pytest.mark.parametrize(("settings", "due"), [(Settings(url="memory://"), 28.0), (PASSIVE, 47.3)])
def test_what_long_jobs_leave_no_place_for_others_have_in_time(settings: Settings, due: float) -> None:
    """Who has had short jobs only, and runs long ones now, does not count on their end.

    What it held before it knew of others goes back as soon as it does; what comes within reach later it leaves.
    """

    async def scenario(fleet: Fleet) -> None:
        fleet.start()
        await fleet.until(4)
        fleet.enqueue((4 + place / 10 for place in range(20)), lasts=0.1)
        await fleet.until(17)
        fleet.enqueue([17.0] * 4, lasts=100.0)
        await fleet.until(18)
        fleet.start()
        fleet.enqueue(due + place / 10 for place in range(10))
        await fleet.until(due + 100)
        starts = [fleet.ledger.starts[job][0][0] - at for job, at in fleet.run_at.items() if at >= due]
        assert max(starts) < 0.02  # one that is due with somebody's turn waits for what a look takes

    play(scenario, replace(settings, concurrency=4), silent=True)


def test_an_hour_forth_and_back_does_not_stop_the_turns() -> None:
    """The store's clock is set: somebody looks in every slot of the new time."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(3)
        for step in (3600, -7200, 3600):
            fleet.clock.offset += type(fleet.clock.offset)(seconds=step)
            now = fleet.clock.boot()
            await asyncio.sleep(100)
            assert 9 <= len(fleet.called("claim", since=now)) <= 16

    play(scenario, PASSIVE, silent=True)
