"""A claim whose job is to give way to another goes back if it has not started, and is let be if it has."""

import asyncio

from stage import Stage, play, working

from standfast import Standfast
from standfast.model.states import State


def test_a_held_job_gives_way_at_the_next_beat() -> None:
    """The one ahead of its time ends as replaced without having run; its replacement runs."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def say(word: str) -> str:
            return word

        stage = Stage(app)
        async with working(stage):
            old = say.options(key="k", delay=8).enqueue("old")
            await stage.until(lambda: stage.job(old).state is State.HELD)
            new = say.options(key="k", on_conflict="replace").enqueue("new")
            assert stage.job(new).state is State.BLOCKED
            assert f"It takes the place of job {old.id}" in stage.why(new)
            stage.pass_on()
            assert (await stage.settled(new)).state is State.COMPLETED
            assert (stage.job(old).state, stage.job(old).reason) == (State.CANCELLED, "replaced")
            assert "another job with the same key took its place" in stage.why(old)
        (attempt,) = stage.history(old)
        assert attempt.started_at is None

    play(scenario)


def test_a_running_job_is_let_be() -> None:
    """It completes, and only then its replacement runs."""

    async def scenario() -> None:
        app, go, order = Standfast("memory://"), asyncio.Event(), []

        @app.task
        async def say(word: str) -> None:
            order.append(f"{word} begins")
            if word == "old":
                await go.wait()
            order.append(f"{word} ends")

        stage = Stage(app)
        async with working(stage):
            old = say.options(key="k").enqueue("old")
            await stage.until(lambda: order)
            new = say.options(key="k", on_conflict="replace").enqueue("new")
            stage.pass_on()
            await asyncio.sleep(1.0)
            assert order == ["old begins"]
            go.set()
            assert (await stage.settled(new)).state is State.COMPLETED
            assert stage.job(old).state is State.COMPLETED
        assert order == ["old begins", "old ends", "new begins", "new ends"]

    play(scenario)
