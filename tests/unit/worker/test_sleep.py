"""`ctx.sleep`: a handler sleeps, and whatever asks it to end wakes it at once; who does not sleep pays nothing."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from standfast import ArgumentsError, Context, Interrupted
from standfast.durable.runtime import RunningStep, current_step
from standfast.model.clock import SystemClock
from standfast.model.job import Claim, ClaimRef
from standfast.worker.control import Control, StopReason
from standfast.worker.lease import Lease

LONG = 30.0


async def opened():
    """Return a control of an attempt that runs, and its context. Leases belong to an event loop."""
    lease = Lease(SystemClock(), lease=1e9, margin=0.0, beat_every=1e9)
    lease.renewed(SystemClock().boot())
    claim = Claim(ClaimRef("job", 1), "sleeper", 1, b"", "default", 0, datetime.now(UTC), 0, 0, 5)
    control = Control(claim, lease, lambda _, __: None)
    control.started_boot = 1.0
    return control, Context(control.claim, control)


TELLING = {
    "cancel": lambda control: control.interrupt(StopReason.CANCEL),
    "stop": lambda control: control.tell(StopReason.STOP),
    "timeout": lambda control: control.tell(StopReason.TIMEOUT),
    "lost": lambda control: control.interrupt(StopReason.LOST),
    "window": lambda control: control.ask_to_finish(datetime(2030, 1, 1, tzinfo=UTC)),
}


@pytest.mark.parametrize("how", TELLING)
async def test_a_thread_is_woken_by_whatever_ends_it(how):
    """From the event loop, where a worker tells its attempts; the sleep raises what ends the attempt."""
    control, ctx = await opened()
    ended, asleep = asyncio.get_running_loop().create_future(), threading.Event()

    def handler():
        try:
            asleep.set()
            ctx.sleep(LONG)
        except Interrupted as error:
            loop.call_soon_threadsafe(ended.set_result, error)

    loop = asyncio.get_running_loop()
    threading.Thread(target=handler, daemon=True).start()
    await asyncio.to_thread(asleep.wait, LONG)
    TELLING[how](control)
    async with asyncio.timeout(5):
        assert isinstance(await ended, Interrupted)


@pytest.mark.parametrize("how", TELLING)
async def test_a_coroutine_is_woken_by_whatever_ends_it(how):
    """Also where nobody cancels its task."""
    control, ctx = await opened()
    sleeping = asyncio.create_task(ctx.asleep(timedelta(seconds=LONG)))
    await asyncio.sleep(0)
    TELLING[how](control)
    async with asyncio.timeout(5):
        with pytest.raises(Interrupted):
            await sleeping


async def test_a_sleep_lasts_as_long_as_it_is_to():
    """And then the handler goes on; nothing of a sleep that is over is kept."""
    control, ctx = await opened()
    await ctx.asleep(0.001)
    await asyncio.to_thread(ctx.sleep, 0.001)
    assert control._waker._wakes == set()


async def test_who_should_end_does_not_even_begin_to_sleep():
    """Told before its first sleep, when there was nobody to wake."""
    control, ctx = await opened()
    control.tell(StopReason.STOP)
    for _ in range(2):
        with pytest.raises(Interrupted):
            await asyncio.to_thread(ctx.sleep, LONG)
        with pytest.raises(Interrupted):
            await ctx.asleep(LONG)


class ToldLate(Control):
    """An attempt that is told to end after its handler has looked, and before there is a sleep to end."""

    def _own_waker(self):
        self.tell(StopReason.STOP)
        return super()._own_waker()


async def test_word_that_comes_between_look_and_sleep_is_not_missed():
    """In both ways to sleep."""
    control, _ = await opened()
    async with asyncio.timeout(5):
        with pytest.raises(Interrupted):
            await asyncio.to_thread(Context(control.claim, told_late(control)).sleep, LONG)
        with pytest.raises(Interrupted):
            await Context(control.claim, told_late(control)).asleep(LONG)


def told_late(control):
    """Return another attempt of the same claim."""
    return ToldLate(control.claim, control._lease, lambda _, __: None)


async def test_two_threads_of_a_handler_are_both_woken():
    """They have one word in common."""
    control, ctx = await opened()
    sleeping = [asyncio.create_task(asyncio.to_thread(ctx.sleep, LONG)) for _ in range(2)]
    sleeping.append(asyncio.create_task(ctx.asleep(LONG)))
    await asyncio.sleep(0.01)
    control.tell(StopReason.STOP)
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*sleeping, return_exceptions=True)
    assert [type(error) for error in ended] == [Interrupted] * 3


async def test_a_sleep_ends_with_the_time_of_its_step():
    """As `ctx.cancelled` turns true inside a step whose timeout is over."""
    _, ctx = await opened()

    def in_step():
        current_step.set(RunningStep("slow", 0.01))
        ctx.sleep(LONG)

    async with asyncio.timeout(5):
        with pytest.raises(Interrupted):
            await asyncio.to_thread(in_step)


async def test_a_sleep_that_is_none_is_refused():
    """So is one that would stop the event loop."""
    _, ctx = await opened()
    with pytest.raises(ArgumentsError, match="a sleep takes seconds or a timedelta, from 0 to a hundred years"):
        await ctx.asleep(-1)
    with pytest.raises(ArgumentsError, match="would block the event loop"):
        ctx.sleep(1)


async def test_who_does_not_sleep_pays_nothing():
    """Neither when it begins nor when it is told: attempts are many."""
    control, _ = await opened()
    control.tell(StopReason.STOP)
    assert not hasattr(control, "_waker")
