"""In the kit a handler that sleeps takes no time of the test's: the clock of the kit moves on by as much."""

import asyncio
from datetime import timedelta

import pytest

from standfast import Context, Standfast
from standfast.testing import StandfastKit

WEEK = 7 * 86_400


@pytest.fixture
def app():
    """Give an app in memory."""
    return Standfast("memory://")


def test_a_sleep_moves_the_clock(app):
    """In threads and coroutines, with `drain` and in inline mode."""
    took = []

    @app.task
    def thread(ctx: Context) -> None:
        before = app.clock.now()
        ctx.sleep(WEEK)
        took.append(app.clock.now() - before)

    @app.task
    async def coroutine(ctx: Context) -> None:
        before = app.clock.now()
        await ctx.asleep(timedelta(days=7))
        took.append(app.clock.now() - before)

    with StandfastKit(app) as kit:
        thread.enqueue()
        coroutine.enqueue()
        kit.drain(raising=True)
        with kit.inline(raising=True):
            thread.enqueue()
            coroutine.enqueue()
    assert took == [timedelta(days=7)] * 4


def test_sleeps_beside_each_other_take_the_time_of_the_longest(app):
    """As they do in life."""
    took = []

    @app.task
    async def several(ctx: Context) -> None:
        before = app.clock.boot()
        await asyncio.gather(ctx.asleep(5), ctx.asleep(3), ctx.asleep(4))
        took.append(app.clock.boot() - before)

    with StandfastKit(app) as kit:
        several.enqueue()
        kit.drain(raising=True)
    assert took == [5]


def test_a_handler_may_sleep_past_the_time_that_a_test_lets_pass(app):
    """`live` ends then, and the clock does not go back."""

    @app.task
    def sleep(ctx: Context) -> str:
        ctx.sleep(100)
        return "slept"

    with StandfastKit(app) as kit:
        began = kit.clock.boot()
        sleep.enqueue()
        assert [run.result for run in kit.live(10)] == ["slept"]
        assert kit.clock.boot() - began == 100


def test_a_cancelled_handler_does_not_sleep(app):
    """It ends there, and the clock stays."""

    @app.task
    def cancelled(ctx: Context) -> None:
        app.handle(ctx.job_id).cancel()
        ctx.sleep(WEEK)

    @app.task
    async def acancelled(ctx: Context) -> None:
        await app.handle(ctx.job_id).acancel()
        await ctx.asleep(WEEK)

    with StandfastKit(app) as kit:
        began = kit.clock.boot()
        jobs = [cancelled.enqueue(), acancelled.enqueue()]
        kit.drain()
        assert [kit.job(job).state for job in jobs] == ["cancelled", "cancelled"]
        assert kit.clock.boot() == began
