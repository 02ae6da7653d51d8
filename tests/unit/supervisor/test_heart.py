"""The beat: what it brings to the children, and when it earns the right to bury."""

import asyncio
from datetime import timedelta

import pytest
from household import SETTINGS, Household

from standfast.events import WorkerLost
from standfast.model.crash import DeathKind
from standfast.model.job import ClaimRef, NewJob, OnConflict
from standfast.stores.contract import cancel_job
from standfast.stores.values import DueSuspects, Vitals
from standfast.supervisor.child import Exit, Phase
from standfast.worker.messages import Adopt, Buried, Renewed, Revoke

pytestmark = pytest.mark.virtual_time


async def test_a_revocation_is_heard_before_the_renewal() -> None:
    """The renewal lets held jobs start, so what is wanted back must be said first."""
    house = Household()
    house.beat()
    house.claim_and_note("ours")
    house.backend.run(cancel_job(house.verbs, "job"))
    house.backend.run(house.verbs.pause("mail"))
    await house.next_words()
    revoke, renewed = await house.next_words()
    assert revoke == Revoke((("job", 1),), ("mail",))
    assert isinstance(renewed, Renewed)


async def test_a_beat_says_for_how_long_cancelled_jobs_go_on_that_were_told_to_end() -> None:
    """So that people hear that a handler ignores its cancellation, in place of when it will be told."""
    house = Household()
    house.beat()
    house.claim_and_note("ours")
    house.backend.run(cancel_job(house.verbs, "job"))
    await house.next_words()
    await house.next_words()  # it is told with the second beat at the latest
    for _ in range(4):
        await house.next_words()
    [worker] = house.backend.run(house.verbs.workers())
    assert worker.vitals is not None
    assert 3 * SETTINGS.beat_every <= worker.vitals.told["job"] <= 5 * SETTINGS.beat_every


async def test_what_is_to_give_way_is_heard_before_the_renewal() -> None:
    """A claim whose job has a replacement is named apart from those whose cancellation was asked for."""
    house = Household()
    house.beat()
    house.claim_and_note("ours", NewJob("old", "task", b"{}", key="k"))
    replacement = NewJob("new", "task", b"{}", key="k", on_conflict=OnConflict.REPLACE)
    house.backend.run(house.verbs.enqueue([replacement]))
    await house.next_words()
    revoke, renewed = await house.next_words()
    assert revoke == Revoke((), (), (("old", 1),))
    assert isinstance(renewed, Renewed)


async def test_nobody_is_buried_before_a_whole_lease_of_unbroken_beats() -> None:
    """A supervisor that just started, or just came back from an outage, gives the others time to beat."""
    house = Household()
    house.beat()
    house.register("gone")
    await asyncio.sleep(14.0)
    house.backend.away = True
    await asyncio.sleep(20.0)
    house.backend.away = False
    await asyncio.sleep(14.0)
    assert house.workers() == ["ours", "gone"]
    await asyncio.sleep(3.0)
    assert house.workers() == ["ours"]


async def test_nobody_is_condemned_because_the_clock_of_the_store_was_set() -> None:
    """After such a step every lease looks expired; for a whole lease the others have time to beat again."""
    house = Household()
    house.beat()
    await asyncio.sleep(41.0)
    set_at = house.clock.boot()
    house.backend.ahead = timedelta(hours=1)
    await asyncio.sleep(30.0)
    assert house.backend.calls_of("condemn")[0] - set_at >= SETTINGS.lease


async def test_a_refused_beat_parts_with_the_child() -> None:
    """Who was buried by others is told so, gets no renewal, and another takes its place."""
    house = Household()
    house.beat()
    await house.next_words()
    house.backend.verbs._workers["ours"].condemned = True
    assert await house.far.receive() == Buried()
    assert house.child.phase is Phase.LEAVING
    assert house.child.replace.is_set()
    await asyncio.sleep(2 * SETTINGS.beat_every)
    assert [event for event in house.told_events if isinstance(event, WorkerLost)] == [WorkerLost("ours", 1)]


async def test_blocked_tasks_and_suspects_are_passed_on() -> None:
    """A worker hears which tasks wait for one that knows them; a supervisor, that suspects wait for a child."""
    house = Household()
    house.beat()
    house.claim_and_note("ours")
    row = house.backend.verbs._jobs["job"]
    row.block("no_worker")
    await house.next_words()
    await house.next_words()
    assert await house.far.receive() == Adopt((("task", 1),))
    row.wait(house.clock.now())
    row.group = 4
    await asyncio.sleep(6.0)
    assert house.suspects[0] == {DueSuspects("default", 4, 1)}


async def test_a_beat_that_is_asked_for_comes_at_once() -> None:
    """Also one that is asked for while another is under way; and the next follows in its turn."""
    house = Household()
    house.backend.latency = 0.25
    heart = house.beat()
    await asyncio.sleep(0.1)
    heart.beat_now()
    heart.beat_now()
    await asyncio.sleep(4.0)
    assert house.backend.calls_of("beat") == [0.0, 0.5]
    heart.beat_now()
    await asyncio.sleep(0.1)
    assert len(house.backend.calls_of("beat")) == 3


async def test_a_beat_tells_how_the_child_is() -> None:
    """From its notes, its last pulse and its process: what hangs is told of without its help."""
    house = Household()
    house.child.slots, house.child.ended_attempts, house.child.lag = 4, 7, 0.25
    house.memory = 50_000_000
    house.claim_and_note("ours", NewJob("a", "task", b"{}"), NewJob("b", "task", b"{}"))
    house.claim_log.started(ClaimRef("b", 1))
    house.child.pulse_at = house.clock.boot()
    await asyncio.sleep(2.5)
    house.beat()
    await house.next_words()
    [worker] = house.backend.run(house.verbs.workers())
    assert worker.vitals == Vitals(memory=50_000_000, running=1, slots=4, lag=0.25, pulse_age=2.5, done=7)
    house.memory = None
    house.child.pulse_at = house.clock.boot()
    await house.next_words()
    [worker] = house.backend.run(house.verbs.workers())
    assert worker.vitals is not None
    assert worker.vitals.memory is None
    assert 0 < worker.vitals.pulse_age <= house.settings.beat_every


@pytest.mark.parametrize("first", ["beat", "claim"])
async def test_a_child_that_the_store_does_not_know_any_more_is_parted_with_once(first) -> None:
    """Its supervisor may hear of it from the store or from the child. Either way its end is no crash."""
    house = Household()
    heart = house.beat()
    await house.next_words()
    house.backend.verbs._workers.clear()
    if first == "claim":
        heart.part_with(house.child)
    await asyncio.sleep(2 * SETTINGS.beat_every)
    heart.part_with(house.child)
    assert [event for event in house.told_events if isinstance(event, WorkerLost)] == [WorkerLost("ours", 1)]
    assert house.child.death(Exit(0)).kind is DeathKind.STOPPED
