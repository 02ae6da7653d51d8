"""How often a worker asks the store for jobs: when there may be some, and not when it knows that there are none."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from stage import SETTINGS, Stage, play, working

from standfast import Standfast
from standfast.errors import StoreUnavailableError
from standfast.model.states import State
from standfast.stores.contract import count_states

RARELY = replace(SETTINGS, safety_poll=1000.0)
JOBS = 10


class Asked:
    """Counts the claim calls of a stage; the next ones may fail."""

    def __init__(self, stage: Stage) -> None:
        self.times = 0
        self.failures = 0
        self._claim = stage.backend.verbs.claim
        stage.backend.verbs.claim = self._counted  # type: ignore[method-assign]

    def _counted(self, *request: Any) -> Any:
        self.times += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("away")
        return self._claim(*request)


def test_a_job_costs_an_idle_worker_one_claim() -> None:
    """The end of a job is no reason to ask for more, where the last answer has left nothing."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def noop() -> None:
            """Do nothing."""

        stage = Stage(app, RARELY)
        asked = Asked(stage)
        async with working(stage):
            await stage.until(lambda: asked.times)
            for number in range(JOBS):
                await stage.settled(noop.enqueue())
                assert asked.times == 2 + number
                await asyncio.sleep(1)
            assert asked.times == 1 + JOBS

    play(scenario)


@pytest.mark.parametrize("jobs", [1, 5, 40])
def test_what_rings_while_all_places_are_taken_is_not_forgotten(jobs: int) -> None:
    """A worker that cannot take more now asks again as soon as it can, without a poll."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def take_a_second() -> None:
            await asyncio.sleep(1)

        stage = Stage(app, RARELY)
        async with working(stage):
            before = take_a_second.enqueue_many([{}] * RARELY.concurrency)
            await stage.until(lambda: stage.job(before[-1]).state is State.RUNNING)
            after = take_a_second.enqueue_many([{}] * jobs)
            began = stage.clock.boot()
            for handle in after:
                await stage.settled(handle)
            assert stage.clock.boot() - began < 2 + jobs / RARELY.concurrency

    play(scenario)


def test_a_job_that_is_given_back_is_asked_for_again() -> None:
    """What comes back from this very worker is due at once, and no poll is needed to see it."""

    async def scenario() -> None:
        app = Standfast("memory://")
        tries = []

        @app.task(max_attempts=3, backoff=0)
        async def fails_twice() -> None:
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError

        stage = Stage(app, RARELY)
        async with working(stage):
            began = stage.clock.boot()
            job = await stage.settled(fails_twice.enqueue())
            assert job.state is State.COMPLETED
            assert stage.clock.boot() - began < 2

    play(scenario)


def test_what_was_asked_for_in_vain_is_asked_for_again() -> None:
    """A bell that rang while the store was away is not forgotten, and no poll is needed."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def noop() -> None:
            """Do nothing."""

        stage = Stage(app, RARELY)
        asked = Asked(stage)
        async with working(stage):
            await stage.until(lambda: asked.times)
            asked.failures, began = 2, stage.clock.boot()
            await stage.settled(noop.enqueue())
            assert asked.times == 4
            assert stage.clock.boot() - began < 5

    play(scenario)


def test_a_task_that_a_worker_does_not_know_is_put_aside_whole() -> None:
    """After the first of its jobs the store puts the others aside: they never reach this worker."""

    async def scenario() -> None:
        app, other = Standfast("memory://"), Standfast("memory://")

        @app.task
        async def known() -> None:
            """Do nothing."""

        @other.task
        async def unknown() -> None:
            """Do nothing."""

        stage = Stage(app, RARELY)
        other._backend = stage.backend
        ids = unknown.enqueue_many({} for _ in range(100))
        async with working(stage):
            await stage.settled(known.enqueue())
            await stage.until(lambda: stage.job(ids[-1]).state is State.BLOCKED)
        claimed = [handle for handle in ids if stage.history(handle)]
        assert 0 < len(claimed) < len(ids) / 2
        assert "unknown" in stage.why(ids[-1])
        assert stage.why(ids[0]) == stage.why(ids[-1])
        blocked = stage.backend.run(count_states(stage.backend.verbs))[State.BLOCKED]
        assert blocked == len(ids)

    play(scenario)
