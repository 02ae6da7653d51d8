"""A job that comes to its first start too late runs all the same, or expires."""

from datetime import timedelta
from typing import Literal

import pytest
from stage import Stage, play, working

from standfast import Context, Interrupted, Standfast
from standfast.events import JobCancelled, JobLate, JobStarted
from standfast.model.states import State

WITHIN = 5.0
runs: list[str] = []


def make_app(*, max_attempts: int = 5) -> Standfast:
    app = Standfast("memory://")
    runs.clear()

    @app.task(max_attempts=max_attempts)
    async def work(name: str) -> None:
        runs.append(name)

    return app


@pytest.mark.parametrize("max_attempts", [1, 5])
def test_a_late_job_that_expires_never_starts(max_attempts: int) -> None:
    """It is told as late, then as cancelled; its history has no start, and it was not marked as running."""

    async def scenario() -> None:
        stage = Stage(make_app(max_attempts=max_attempts))
        task = stage.app.tasks["work"].options(start_within=WITHIN, on_late="expire")
        handle = task.enqueue("late")
        stage.clock.offset += timedelta(seconds=60)
        async with working(stage):
            job = await stage.settled(handle)
        assert (job.state, job.reason, job.attempt) == (State.CANCELLED, "expired", 0)
        assert runs == []
        late, cancelled = stage.told
        assert isinstance(late, JobLate)
        assert late.expires is True
        assert late.start_by == job.run_at + timedelta(seconds=WITHIN)
        assert late.late >= timedelta(seconds=60)
        assert isinstance(cancelled, JobCancelled)
        assert cancelled.reason == "expired"
        (attempt,) = stage.history(handle)
        assert (attempt.started_at, attempt.how) == (None, "cancel")

    play(scenario)


def test_a_late_job_may_run_all_the_same() -> None:
    """It is told as late, and then it runs."""

    async def scenario() -> None:
        stage = Stage(make_app())
        handle = stage.app.tasks["work"].options(start_within=WITHIN).enqueue("late")
        stage.clock.offset += timedelta(seconds=60)
        async with working(stage):
            job = await stage.settled(handle)
        assert (job.state, runs) == (State.COMPLETED, ["late"])
        late, started, _ = stage.told
        assert isinstance(late, JobLate)
        assert late.expires is False
        assert isinstance(started, JobStarted)

    play(scenario)


@pytest.mark.parametrize("on_late", ["run", "expire"])
def test_a_job_that_starts_in_time_is_not_late(on_late: Literal["run", "expire"]) -> None:
    """Nothing is said about it."""

    async def scenario() -> None:
        stage = Stage(make_app())
        handle = stage.app.tasks["work"].options(start_within=WITHIN, on_late=on_late).enqueue("in time")
        async with working(stage):
            assert (await stage.settled(handle)).state is State.COMPLETED
        assert stage.names_told() == ["JobStarted", "JobCompleted"]

    play(scenario)


def test_only_the_first_start_can_be_late() -> None:
    """A retry that comes after the limit is not late: the job was started in time."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task(backoff=60)
        async def fail_once() -> None:
            runs.append("run")
            if len(runs) == 1:
                raise ConnectionError("once")

        runs.clear()
        stage = Stage(app)
        handle = fail_once.options(start_within=WITHIN, on_late="expire").enqueue()
        async with working(stage):
            await stage.until(lambda: runs)
            await stage.until(lambda: stage.job(handle).state is State.SCHEDULED)
            stage.clock.offset += timedelta(seconds=150)
            stage.renew()
            assert (await stage.settled(handle)).state is State.COMPLETED
        assert "JobLate" not in stage.names_told()

    play(scenario)


@pytest.mark.parametrize("writes", [True, False])
def test_a_job_that_goes_on_is_never_too_late(writes: bool) -> None:
    """Who was released after it had written something down runs to its end; who had not, expires."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def work(ctx: Context) -> int:
            if ctx.fence == 1:
                if writes:
                    ctx.cursor.save(7)
                stage.clock.offset += timedelta(seconds=60)
                raise Interrupted
            return await ctx.cursor.aload(default=0)

        stage = Stage(app)
        handle = work.options(start_within=WITHIN, on_late="expire").enqueue()
        async with working(stage):
            job = await stage.settled(handle)
        if writes:
            assert (job.state, handle.result()) == (State.COMPLETED, 7)
        else:
            assert (job.state, job.reason) == (State.CANCELLED, "expired")
        assert ("JobLate" in stage.names_told()) is not writes

    play(scenario)
