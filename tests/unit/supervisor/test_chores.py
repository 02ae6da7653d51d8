"""What is put right beside the beats: claims that nobody holds, workers that vanished, what is kept no longer."""

import asyncio
from datetime import timedelta

import pytest
from household import SETTINGS, Household
from msgspec.structs import replace

from standfast.events import DeadRemoved
from standfast.model.job import ClaimRef, Ending, NewJob
from standfast.model.states import Move, State
from standfast.stores.values import JobFilter, Worker, WorkerBeat
from standfast.supervisor.housekeeping import SWEEP_EVERY, SWEPT_AT_ONCE

pytestmark = pytest.mark.virtual_time


async def test_a_beat_waits_for_no_chore() -> None:
    """A burial may stand in line behind somebody's long write: beats go on, and the next chore waits for it."""
    house = Household()
    heart = house.beat()
    house.register("gone")
    house.backend.slow_verb = "condemn"
    await asyncio.sleep(SETTINGS.lease + 1)
    [begun] = house.backend.calls_of("condemn")
    heart.beat_now()
    await asyncio.sleep(1)
    assert [at for at in house.backend.calls_of("beat") if begun < at]
    assert house.backend.calls_of("condemn") == [begun]


async def test_results_whose_time_is_over_are_swept_now_and_again() -> None:
    """About once a minute, all of them, though one call takes some only."""
    house = Household()
    house.beat()
    rows = SWEPT_AT_ONCE + 1
    claims = house.claim("ours", *(NewJob(f"job-{number}", "task", b"{}") for number in range(rows)))
    span = timedelta(seconds=1)
    endings = [Ending(claim.ref, Move.COMPLETE, result=b"1", keep_result=span) for claim in claims]
    house.backend.run(house.verbs.finish("ours", endings))

    def left() -> int:
        return sum(row.result is not None for row in house.backend.verbs._jobs.values())

    beat = SETTINGS.beat_every
    await asyncio.sleep(SWEEP_EVERY - beat / 2)
    assert left() == rows
    await asyncio.sleep(beat)
    assert left() == 0


async def test_finished_jobs_whose_time_is_over_are_retired() -> None:
    """At a look after `keep_finished`, and not at one before."""
    house = Household()
    house.beat()
    house.claim_and_note("ours")
    house.backend.run(house.verbs.finish("ours", [Ending(ClaimRef("job", 1), Move.COMPLETE)]))
    assert SETTINGS.keep_finished is not None
    await asyncio.sleep(SETTINGS.keep_finished - 1)
    assert house.state() is State.COMPLETED
    await asyncio.sleep(SWEEP_EVERY)
    assert house.state() is None


async def test_dead_jobs_are_kept_for_ever_unless_a_bound_is_set() -> None:
    """Each bound removes the oldest ones, and an event tells how many and which setting says so."""
    for settings, left in (
        (SETTINGS, 4),
        (replace(SETTINGS, keep_dead_for=100.0), 1),
        (replace(SETTINGS, keep_dead=3), 3),
    ):
        house = Household(settings=settings)
        house.beat()
        _die(house, 3, first=0)
        await asyncio.sleep(SWEEP_EVERY)
        _die(house, 1, first=3)
        await asyncio.sleep(100.0)
        dead = [job.id for job in house.backend.run(house.verbs.list_jobs(JobFilter(states=(State.DEAD,)))).jobs]
        assert dead == [f"job-{number}" for number in reversed(range(4))][:left]
        removed = [event for event in house.told_events if isinstance(event, DeadRemoved)]
        setting = next((name for name in ("keep_dead_for", "keep_dead") if getattr(settings, name)), "")
        assert removed == ([DeadRemoved(4 - left, setting, getattr(settings, setting))] if left < 4 else [])


async def test_many_dead_jobs_are_removed_in_one_look_and_told_once() -> None:
    house = Household(settings=replace(SETTINGS, keep_dead=1))
    house.beat()
    _die(house, 2 * SWEPT_AT_ONCE, first=1000)
    await asyncio.sleep(SWEEP_EVERY)
    removed = [event for event in house.told_events if isinstance(event, DeadRemoved)]
    assert [event.jobs for event in removed] == [2 * SWEPT_AT_ONCE - 1]


def _die(house: Household, number: int, *, first: int) -> None:
    claims = house.claim("ours", *(NewJob(f"job-{first + place}", "task", b"{}") for place in range(number)))
    house.backend.run(house.verbs.finish("ours", [Ending(claim.ref, Move.DIE) for claim in claims]))


@pytest.mark.parametrize(("other", "sweeps"), [("a", False), ("z", True), (None, True)])
async def test_only_the_first_of_all_sweeps(other: str | None, sweeps: bool) -> None:
    """What is done once for the whole fleet is not done more often in a larger one."""
    house = Household("m")
    house.beat()
    if other is not None:
        house.register(other)
    for _ in range(int(2 * SWEEP_EVERY)):
        await asyncio.sleep(1)
        if other is not None:
            house.backend.run(house.verbs.beat([WorkerBeat(other)]))
    assert bool(house.backend.calls_of("forget_results")) is sweeps


async def test_when_the_first_is_gone_the_next_one_sweeps() -> None:
    house = Household("m")
    house.register("a")
    house.beat()
    await asyncio.sleep(SETTINGS.lease + 10)
    assert house.backend.calls_of("forget_results")


async def test_the_vanished_are_buried_soon_after_their_lease() -> None:
    """The beat's answer says when the next lease runs out; burial does not wait for the next regular beat."""
    house = Household()
    house.beat()
    await asyncio.sleep(41.0)
    house.register("gone")
    house.claim("gone")
    await asyncio.sleep(15.0)
    assert house.state() is State.HELD
    await asyncio.sleep(0.2)
    assert house.state() is State.READY


async def test_a_claim_that_nobody_noted_is_released() -> None:
    """The answer of a claim call got lost: what the store gave away then comes back at the next beats."""
    house = Household()
    house.beat()
    house.claim("ours")
    await asyncio.sleep(20.0)
    assert house.state() is State.HELD
    house.claim_log.given_up(1)
    await asyncio.sleep(6.0)
    assert house.state() is State.READY


async def test_who_cannot_be_taken_down_in_time_is_handed_over_and_buried() -> None:
    """Whoever is to hear of it hears of it, and can keep it; the burial does not wait for them."""
    house = Household()
    heard: list[str] = []

    async def lost(worker: Worker) -> None:
        heard.append(worker.info.id)
        await asyncio.sleep(60)

    house.beat(lost=lost)
    house.register("gone")
    await asyncio.sleep(SETTINGS.lease + 3)
    assert (heard, house.workers()) == (["gone"], ["ours"])


async def test_nobody_is_buried_of_whom_the_store_cannot_say_who_it_was() -> None:
    """Else nobody would ever hear of it. It is tried again with the next beat."""
    house = Household()
    heard: list[str] = []

    async def lost(worker: Worker) -> None:
        heard.append(worker.info.id)

    house.beat(lost=lost)
    house.register("gone")
    house.backend.slow_verb = "workers"
    await asyncio.sleep(SETTINGS.lease + 8)
    assert "gone" in house.workers()
    house.backend.slow_verb = ""
    await asyncio.sleep(SETTINGS.lease)
    assert (heard, house.workers()) == (["gone"], ["ours"])


async def test_a_store_that_tells_of_no_worker_has_its_lost_ones_buried_all_the_same() -> None:
    """A passive one: nothing is taken down of them, and their jobs come back."""
    house = Household()
    house.beat()
    house.register("gone")
    house.backend.refused_verb = "workers"
    await asyncio.sleep(SETTINGS.lease + 3)
    assert len(house.backend.calls_of("bury")) == 1
