"""A loop that is resumed is never too far ahead of what is saved, and loses nothing when it is told to end."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from saving_scene import Scene
from stage import play, working

from standfast import Context, Standfast
from standfast.model.states import State

EVERY = 10


def saved(stage: Scene, job_id: str) -> int:
    """Return how many items the store knows to be done."""
    memos = {memo.name: memo.body for memo in stage.backend.run(stage.backend.verbs.memos(job_id))}
    return msgspec.json.decode(memos["cursor:items"])["done"] if memos else 0


@pytest.mark.parametrize("every", [1, 2, 3, EVERY])
@pytest.mark.parametrize("slow", [True, False])
def test_at_most_so_many_items_are_not_saved(every: int, slow: bool) -> None:
    """Whenever the process dies: also if the answers of the store take longer than the items, or never come."""

    async def scenario() -> None:
        app = Standfast("memory://")
        ahead: list[int] = []

        @app.task
        async def work(ctx: Context) -> None:
            async for item in ctx.resume(range(100), every=every):
                await asyncio.sleep(0.01 if slow else 0)
                ahead.append(item + 1 - saved(stage, ctx.job_id))
                stage.backend.away_for = 3 if item % 7 == 0 else 0
                stage.backend.lose_answers = item % 3

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            assert (await stage.settled(handle)).state is State.COMPLETED
        assert max(ahead) <= every
        assert len(ahead) == 100
        assert saved(stage, handle.id) == 100

    play(scenario)


def test_a_loop_waits_for_a_store_that_is_away_and_no_longer() -> None:
    """It stands still after `every` items, and goes on by itself."""

    async def scenario() -> None:
        app = Standfast("memory://")
        done: list[int] = []

        @app.task
        async def work(ctx: Context) -> None:
            async for item in ctx.resume(range(100), every=EVERY):
                done.append(item)  # noqa: PERF401 - it is looked at meanwhile

        stage = Scene(app)
        stage.backend.away = True
        handle = work.enqueue()
        async with working(stage):
            await stage.until(lambda: done)
            await asyncio.sleep(20)
            assert done == list(range(EVERY))
            stage.backend.away = False
            await stage.settled(handle)
        assert done == list(range(100))

    play(scenario)


def test_the_saves_of_a_loop_are_few() -> None:
    """Two for each `every`, and nobody waits for them."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> None:
            async for _ in ctx.resume(range(1_000), every=100, seconds=1_000):
                await asyncio.sleep(0.001)

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
        assert len(stage.saves) == 20

    play(scenario)


FAILS_AT = 77
SOME = 20


class Handlers:
    """A loop of each kind over many items, one of which may fail; what is done is counted."""

    def __init__(self, *, fails: bool) -> None:
        self.done: list[int] = []
        self._fails = fails

    async def awaiting(self, ctx: Context) -> None:
        async for item in ctx.resume(range(10_000), every=1_000):
            await asyncio.sleep(0.002)
            self._do(item)

    def blocking(self, ctx: Context) -> None:
        for item in ctx.resume(range(10_000), every=1_000):
            time.sleep(0.002)
            self._do(item)

    def _do(self, item: int) -> None:
        if self._fails and item == FAILS_AT:
            raise OSError("a pity")
        self.done.append(item)


@pytest.mark.parametrize("kind", ["awaiting", "blocking"])
@pytest.mark.parametrize("how", ["cancel", "stop", "timeout", "raise"])
def test_what_is_done_is_saved_when_the_attempt_is_told_to_end(kind: str, how: str) -> None:
    """To the item: the next attempt begins with the first one that is not done."""

    async def scenario() -> None:
        app, handlers = Standfast("memory://"), Handlers(fails=how == "raise")

        async def awaiting(ctx: Context) -> None:
            await handlers.awaiting(ctx)

        def blocking(ctx: Context) -> None:
            handlers.blocking(ctx)

        policy: dict[str, Any] = {"max_attempts": 2, "backoff": 1_000, "timeout": 0.3 if how == "timeout" else None}
        work: Any = app.task(name="work", **policy)(awaiting if kind == "awaiting" else blocking)
        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            if how in {"cancel", "stop"}:
                await stage.until(lambda: len(handlers.done) > SOME)
                handle.cancel() if how == "cancel" else stage.stop()
                stage.pass_on()
            await stage.until(lambda: "finish" in stage.backend.calls)
            assert handlers.done == list(range(len(handlers.done)))
            assert saved(stage, handle.id) == len(handlers.done)

    play(scenario, virtual=False)


def test_a_lost_claim_ends_the_loop() -> None:
    """It does no more than what it may be ahead, and its saves are refused."""

    async def scenario() -> None:
        app = Standfast("memory://")
        done: list[int] = []

        @app.task
        async def work(ctx: Context) -> None:
            if ctx.fence > 1:
                return
            row = stage.backend.verbs._jobs[ctx.job_id]
            row.wait(row.run_at)  # as if it had been buried
            async for item in ctx.resume(range(1_000), every=EVERY):
                done.append(item)  # noqa: PERF401 - it is looked at although the loop fails

        stage = Scene(app)
        handle = work.enqueue()
        async with working(stage):
            await stage.settled(handle)
        assert len(done) <= EVERY
        assert stage.memos(handle) == {}

    play(scenario)
