"""A fleet on a store with a bell: how the workers share jobs that are due later, and how seldom they ask.

The shipped supervisors and workers, in virtual time.
"""

from random import Random

import pytest
from msgspec.structs import replace

from standfast.settings import Settings
from virtual_fleet import Fleet, play

SETTINGS = Settings(url="memory://")
EXACT = 0.001
"""Seconds: timers are exact in virtual time."""

SETTLED = 11.5
"""Seconds after which all know each other; half a second before somebody's turn."""


@pytest.mark.parametrize("workers", [1, 5])
def test_jobs_at_random_instants_start_on_time_and_cost_few_claims(workers: int) -> None:
    """Fewer than one worker would make which asks each second.

    Called to so many jobs, each leaves most of them to the turns of the others; those with the next turns look once
    more shortly before the first of them is due, for others may have gone. No job is late.
    """

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(workers)
        random = Random(workers)
        await fleet.until(SETTLED)
        fleet.enqueue([14 + random.uniform(0, 20) for _ in range(1000)])
        await fleet.until(34)
        claims = len(fleet.called("claim", since=SETTLED))
        await fleet.until(40)
        delays = fleet.delays()
        assert min(delays) > -EXACT
        assert max(delays) < EXACT
        assert claims < 34 - SETTLED
        assert len(fleet.starters()) == workers

    play(scenario, SETTINGS)


def test_a_call_to_many_jobs_costs_each_one_claim_and_two_of_them_one_more() -> None:
    """Whenever it comes: besides, somebody looks in its turn every two seconds, and it is eleven turns."""
    claims: list[int] = []

    for phase in range(10):

        async def scenario(fleet: Fleet, phase: int = phase) -> None:
            await fleet.start_all(5)
            random, at = Random(phase), SETTLED + phase
            await fleet.until(at)
            fleet.enqueue([at + 2 + random.uniform(0, 20) for _ in range(1000)])
            await fleet.until(at + 22)
            claims.append(len(fleet.called("claim", since=at)))
            await fleet.until(at + 30)
            assert max(fleet.delays()) < EXACT

        play(scenario, SETTINGS)
    assert max(claims) < 20
    assert sum(claims) / len(claims) <= 5 + 11 + 2


@pytest.mark.parametrize("lasts", [0.3, 3.0])
@pytest.mark.parametrize("at", [SETTLED, 12.0])
def test_a_burst_beyond_the_places_of_one_is_shared(lasts: float, at: float) -> None:
    """Whether the bell called them or somebody's turn brought all of it, each starts what it has room for."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(5)
        await fleet.until(at)
        fleet.enqueue([20.0] * 100, lasts)
        await fleet.until(40)
        assert max(fleet.delays()) < EXACT
        assert {len(fleet.started_by(worker)) for worker in fleet.starters()} == {20}
        assert len(fleet.called("claim", since=at)) < 40

    play(scenario, SETTINGS)


def test_a_burst_far_ahead_is_shared_when_it_comes_within_reach() -> None:
    """Nobody is called then. Whose turn it is takes it all, gives back what is too much, and so calls others."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(5)
        fleet.enqueue([60.0] * 100, lasts=3.0)
        await fleet.until(40)
        before = len(fleet.called("claim"))
        await fleet.until(80)
        assert max(fleet.delays()) < EXACT
        assert {len(fleet.started_by(worker)) for worker in fleet.starters()} == {20}
        assert len(fleet.called("claim")) - before < 40

    play(scenario, SETTINGS)


def test_the_turn_of_a_busy_worker_is_not_lost() -> None:
    """Nine of ten are busy for long: a job that comes within reach by itself starts on time at the tenth."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(10)
        fleet.enqueue([12.0] * 18, lasts=1000.0)
        fleet.enqueue([40.0 + 3.7 * place for place in range(10)])
        await fleet.until(90)
        on_time = [delay for delay in fleet.delays() if delay < EXACT]
        assert len(on_time) == 28

    play(scenario, replace(SETTINGS, concurrency=2, grace=1.0))


def test_more_jobs_than_one_turn_brings_start_on_time_all_the_same() -> None:
    """A thousand in a second, for four seconds: what is left in one's turn is looked for when it is urgent."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(3)
        fleet.enqueue([11.2 + place / 100 for place in range(300)])
        await fleet.until(15)
        fleet.enqueue([40 + place / 1000 for place in range(4000)])
        await fleet.until(60)
        assert max(fleet.delays()) < 0.02
        assert len(fleet.called("claim", since=28)) < 300

    play(scenario, SETTINGS)


def test_jobs_longer_than_expected_are_shared_late_and_not_one_by_one() -> None:
    """Nobody knows at first that they last a second; what waits for too long at one goes to the others."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(5)
        random = Random(5)
        await fleet.until(12)
        fleet.enqueue([14 + random.uniform(0, 20) for _ in range(1000)], lasts=1.0)
        await fleet.until(60)
        delays = sorted(fleet.delays())
        assert delays[-1] < 1.0
        assert delays[800] < EXACT
        assert len(fleet.called("claim", since=12)) < 350  # 170 to 300, by the seed

    play(scenario, SETTINGS)


def test_two_and_ten_idle_workers_ask_as_often_as_one() -> None:
    """Everything but beats counts."""
    calls: dict[int, int] = {}

    for workers in (1, 2, 10):

        async def scenario(fleet: Fleet, workers: int = workers) -> None:
            await fleet.start_all(workers)
            await fleet.until(60)
            before = len(fleet.store.calls) - len(fleet.called("beat"))
            await fleet.until(360)
            calls[workers] = len(fleet.store.calls) - len(fleet.called("beat")) - before

        play(scenario, SETTINGS)
    assert calls[1] == pytest.approx(160, abs=3)
    assert calls[2] == pytest.approx(calls[1], abs=3)
    assert calls[10] == pytest.approx(calls[1], abs=3)


def test_with_a_short_look_ahead_jobs_are_on_time_all_the_same() -> None:
    """Turns come too late for it: each looks for the next job by itself, when it is due."""

    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(3)
        fleet.enqueue([20.0, 23.3, 31.1])
        await fleet.until(40)
        assert max(fleet.delays()) < 0.02

    play(scenario, replace(SETTINGS, look_ahead=0.0))


@pytest.mark.parametrize("concurrency", [1, 1000])
def test_with_few_places_or_very_many_jobs_are_held_ahead(concurrency: int) -> None:
    async def scenario(fleet: Fleet) -> None:
        await fleet.start_all(1)
        fleet.enqueue([20.0])
        await fleet.until(15)
        assert fleet.held()
        await fleet.until(21)
        assert max(fleet.delays()) < EXACT

    play(scenario, replace(SETTINGS, concurrency=concurrency))
