"""Who hangs is ended; who only waits for a store that is away, or was not heard by us, is not."""

import asyncio

import pytest
from household import Household

from simulator.world import VirtualClock
from standfast.events import WorkerHung
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.hangs import START_LIMIT, HangWatch

pytestmark = pytest.mark.virtual_time

LIMIT = 10.0


def watch(house: Household, *more: Child) -> asyncio.Task[None]:
    watching = HangWatch(house.clock, house.events, 10 * LIMIT, lambda: [house.child, *more])
    watching.learn(house.calls, LIMIT)
    return asyncio.ensure_future(watching.run())


def hung(house: Household) -> list[WorkerHung]:
    return [event for event in house.told_events if isinstance(event, WorkerHung)]


async def test_a_child_that_gives_no_sign_of_life_is_killed() -> None:
    """Not before the limit; what becomes of its jobs is decided with its last silence as evidence."""
    house = Household()
    loop = watch(house)
    await asyncio.sleep(LIMIT - 1)
    house.child.pulse_at = house.clock.boot()
    await asyncio.sleep(LIMIT)
    assert not house.child.process.process.exit.done()
    await asyncio.sleep(2)
    assert house.child.process.process.exit.result() == -9
    assert "no sign of life for 1" in house.child.verdict
    assert hung(house)
    loop.cancel()


async def test_a_child_that_a_store_in_order_does_not_answer_is_killed() -> None:
    """While the store answers nobody the child is not to blame."""
    house = Household()
    loop = watch(house)
    house.backend.away = True
    house.child.unanswered_for = LIMIT + 1
    for _ in range(20):
        house.child.pulse_at = house.clock.boot()
        await asyncio.sleep(1)
    assert not hung(house)
    house.backend.away = False
    await asyncio.sleep(2)
    assert hung(house)[0].silent == LIMIT + 1
    loop.cancel()


async def test_a_supervisor_that_stood_still_blames_nobody() -> None:
    """It could not hear its children meanwhile: each is given the whole limit again."""

    class Leaping(VirtualClock):
        ahead = 0.0

        def boot(self) -> float:
            return super().boot() + self.ahead

    house = Household()
    house.clock = clock = Leaping()
    loop = watch(house)
    await asyncio.sleep(1.5)
    clock.ahead = 100 * LIMIT
    await asyncio.sleep(LIMIT)
    assert not hung(house)
    await asyncio.sleep(3)
    assert hung(house)
    loop.cancel()


async def test_a_child_that_starts_is_given_time_to_import_the_app() -> None:
    """Its event loop does not turn meanwhile: a short limit is for handlers, and one of a minute for that."""
    house = Household()
    house.child.phase = Phase.STARTING
    loop = watch(house)
    await asyncio.sleep(START_LIMIT)
    assert not hung(house)
    await asyncio.sleep(3)
    assert hung(house)
    loop.cancel()


async def test_a_child_that_starts_slowly_is_told_of_before_it_is_ended(caplog) -> None:
    """Once, where the limit of the app gives it more than the least time."""
    house = Household()
    house.child.phase = Phase.STARTING
    watching = HangWatch(house.clock, house.events, 2 * START_LIMIT, lambda: [house.child])
    loop = asyncio.ensure_future(watching.run())
    await asyncio.sleep(2 * START_LIMIT - 1)
    assert caplog.text.count("has imported the app for 6") == 1
    assert not hung(house)
    await asyncio.sleep(3)
    assert hung(house)
    assert "while it imported the app (if that takes long, set STANDFAST_HANG_LIMIT)" in house.child.verdict
    loop.cancel()


async def test_several_that_hang_are_ended_side_by_side() -> None:
    """To take down where one is takes a while: the others are not forgiven for it, nor is it done twice."""
    house = Household()
    children = [house.child, *(Household(name).child for name in ("second", "third"))]
    for child in children:
        child.process.stacks = lambda: asyncio.sleep(1.2, "somewhere")
    loop = watch(house, *children[1:])
    await asyncio.sleep(LIMIT + 3)
    assert [child.process.process.exit.result() for child in children] == [-9] * 3
    assert [child.portrait["stacks"] for child in children] == ["somewhere"] * 3
    assert len(hung(house)) == 3
    loop.cancel()
