"""A drain ends when nothing is left to do, for a moment longer than one look, and with all children at work."""

import asyncio

import pytest
from household import Household

from standfast.model.job import ClaimRef, Ending, NewJob
from standfast.model.states import Move, State
from standfast.supervisor.supervisor import LOOK_EVERY, QUIET_LOOKS, until_drained

pytestmark = pytest.mark.virtual_time

A_MOMENT = (QUIET_LOOKS + 1) * LOOK_EVERY


async def test_a_drain_waits_for_what_is_claimed_and_tells_what_is_not_for_now() -> None:
    house = Household()
    house.backend.run(house.verbs.pause("later"))
    house.backend.run(house.verbs.enqueue([NewJob("other", "task", b"{}", queue="later")]))
    house.claim("ours")
    drained = asyncio.ensure_future(until_drained(house.calls, None, lambda: True))
    await asyncio.sleep(10)
    assert not drained.done()
    house.backend.run(house.verbs.finish("ours", [Ending(ClaimRef("job", 1), Move.COMPLETE)]))
    await asyncio.sleep(A_MOMENT)
    assert drained.result() == {State.READY: 1}


async def test_a_drain_does_not_end_while_a_child_is_not_at_work() -> None:
    """One that is about to start may bring with it what adopts more; and looks would be for nothing."""
    house = Household()
    at_work = False
    drained = asyncio.ensure_future(until_drained(house.calls, None, lambda: at_work))
    await asyncio.sleep(10)
    assert house.backend.calls_of("unsettled") == []
    at_work = True
    await asyncio.sleep(A_MOMENT)
    assert drained.result() == {}


async def test_one_quiet_look_is_not_the_end() -> None:
    """A job that comes back between two looks is waited for."""
    house = Household()
    drained = asyncio.ensure_future(until_drained(house.calls, None, lambda: True))
    await asyncio.sleep((QUIET_LOOKS - 0.5) * LOOK_EVERY)
    assert len(house.backend.calls_of("unsettled")) == QUIET_LOOKS - 1
    house.claim("ours")
    await asyncio.sleep(10)
    assert not drained.done()
    drained.cancel()
