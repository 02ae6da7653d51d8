"""A fleet whose task has a limit in each process, in virtual time: on time, and no storms of claims."""

import pytest
from msgspec.structs import replace

from standfast.schedules.limits import Limit, Limits
from standfast.settings import Settings
from virtual_fleet import Fleet, play

SETTINGS = Settings(url="memory://")
EXACT = 0.001
ONE_EACH = Limits(tasks={"work": Limit(1)})


@pytest.mark.parametrize("at", [11.5, 13.0])
@pytest.mark.parametrize("due", [20.0, 60.0])
def test_jobs_due_together_start_on_time_where_there_is_room(at: float, due: float) -> None:
    """Who holds more of them than its gate lets through gives them back before their time, and not at it."""

    async def scenario(fleet: Fleet) -> None:
        fleet.limits = ONE_EACH
        await fleet.start_all(5)
        await fleet.until(at)
        fleet.enqueue([due] * 5, lasts=3.0)
        await fleet.until(due - 2)
        assert len(fleet.held()) == 5
        claims = len(fleet.called("claim"))
        await fleet.until(due + 5)
        assert max(fleet.delays()) < EXACT
        assert len(fleet.starters()) == 5
        assert claims < 100

    play(scenario, SETTINGS)


def test_what_is_given_back_is_not_claimed_again_and_again() -> None:
    """Also where nothing tells others of it: who gave it back looks no further than to it."""

    async def scenario(fleet: Fleet) -> None:
        fleet.limits = ONE_EACH
        await fleet.start_all(5)
        fleet.enqueue([60.0] * 5, lasts=3.0)
        await fleet.until(59)
        assert len(fleet.called("claim", since=40)) < 10

    play(scenario, replace(SETTINGS, safety_poll=10.0, look_ahead=10.3), silent=True)


def test_a_job_held_for_later_goes_back_when_its_gate_is_full_for_long() -> None:
    """The other worker has it in hand well before its time."""

    async def scenario(fleet: Fleet) -> None:
        fleet.limits = ONE_EACH
        await fleet.start_all(1)
        fleet.enqueue([45.0])
        await fleet.until(36.5)
        [holder] = fleet.held()
        fleet.enqueue([36.5], lasts=100.0)
        fleet.start()
        await fleet.until(44.8)
        assert fleet.held() > {holder}
        await fleet.until(46)
        assert max(fleet.delays()) < 0.01

    play(scenario, SETTINGS)


def test_a_backlog_at_full_gates_does_not_call_the_whole_fleet_in_each_turn() -> None:
    """However large the fleet, the store is asked as often."""
    rates = []

    for workers in (5, 30):

        async def scenario(fleet: Fleet, workers: int = workers) -> None:
            fleet.limits = ONE_EACH
            await fleet.start_all(workers)
            fleet.enqueue([14.0] * 3 * workers, lasts=1000.0)
            await fleet.until(40)
            rates.append(-len(fleet.called("claim")))
            await fleet.until(160)
            rates[-1] += len(fleet.called("claim"))

        play(scenario, SETTINGS)
    assert max(rates) <= 1.6 * 120
