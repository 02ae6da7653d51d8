"""What the beat carries between a child and the store about turns and time."""

import pytest
from household import SETTINGS, Household
from msgspec.structs import replace

from standfast.stores.values import Turn, WorkerBeat
from standfast.supervisor.child import Phase

pytestmark = pytest.mark.virtual_time

LATENCY = 0.25


async def test_a_child_hears_the_stores_time_and_when_it_was_told() -> None:
    house = Household()
    house.backend.latency = LATENCY
    house.beat()
    told = await house.told()
    assert told.answered_at == pytest.approx(2 * LATENCY, abs=0.001)
    assert (told.now - house.clock.now()).total_seconds() == pytest.approx(-LATENCY, abs=0.01)


async def test_a_child_hears_its_place_and_others_hear_when_it_looked() -> None:
    house = Household("m")
    house.beat()
    house.register("a")
    house.register("z")
    house.child.polled_at = house.clock.now()
    assert (await house.told()).turn == Turn(1, 3, house.child.polled_at)
    other = house.backend.run(house.verbs.beat([WorkerBeat("z")])).turns["z"]
    assert other == Turn(2, 3, house.child.polled_at)


async def test_after_a_burial_the_child_is_told_once_to_look() -> None:
    """What the buried worker had has come back, and there may be no bell to tell of it."""
    house = Household()
    house.beat()
    house.register("a")
    house.claim("a")
    looks: list[float] = []
    while house.clock.boot() < 60:
        if (await house.told()).look:
            looks.append(house.clock.boot())
    [at] = looks
    assert at <= SETTINGS.lease + SETTINGS.beat_every + 2


async def test_a_supervisor_that_buried_its_own_child_has_another_look() -> None:
    house = Household()
    heart = house.beat()
    assert not (await house.told()).look
    heart.look_soon()
    assert (await house.told()).look
    assert not (await house.told()).look


async def test_a_child_that_leaves_is_not_sent_to_look() -> None:
    house = Household()
    heart = house.beat()
    house.child.phase = Phase.LEAVING
    heart.look_soon()
    assert not (await house.told()).look


async def test_where_slots_are_long_all_beat_shortly_before_each() -> None:
    """So that they know each other when it begins; and no more often than they would have to anyway."""
    house = Household(settings=replace(SETTINGS, safety_poll=10.0))
    house.backend.latency = LATENCY
    house.beat()
    beats = []
    while house.clock.boot() < 100:
        await house.told()
        beats.append(house.clock.boot())
    gaps = [10 - beat % 10 for beat in beats]
    assert sum(gap < 1 for gap in gaps) >= 9
    assert len(beats) <= 34
