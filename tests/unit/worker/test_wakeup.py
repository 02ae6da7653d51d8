"""A loop rests for a time, unless it is called; no call is lost, and each ends one rest."""

import asyncio

import pytest

from standfast.model.concurrency import Wakeup

pytestmark = pytest.mark.virtual_time


async def test_a_rest_lasts_its_time_or_until_a_call() -> None:
    wakeup, loop = Wakeup(), asyncio.get_running_loop()
    assert not await wakeup.rest(5)
    assert loop.time() == pytest.approx(5)
    loop.call_later(3, wakeup.call)
    assert await wakeup.rest(5)
    assert loop.time() == pytest.approx(8)
    loop.call_later(30, wakeup.call)
    assert await wakeup.rest(None)
    assert loop.time() == pytest.approx(38)


async def test_calls_between_two_rests_end_the_next_one_and_no_other() -> None:
    wakeup = Wakeup()
    wakeup.call()
    wakeup.call()
    assert await wakeup.rest(0)
    assert not await wakeup.rest(0)


async def test_a_call_at_the_very_end_of_a_rest_is_heard_then_or_by_the_next() -> None:
    wakeup, loop = Wakeup(), asyncio.get_running_loop()
    loop.call_later(1, wakeup.call)
    assert [await wakeup.rest(1), await wakeup.rest(1)].count(True) == 1


async def test_a_rest_can_be_cancelled_also_in_the_moment_of_a_call() -> None:
    wakeup = Wakeup()
    resting = asyncio.ensure_future(wakeup.rest(60))
    await asyncio.sleep(1)
    wakeup.call()
    resting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resting
