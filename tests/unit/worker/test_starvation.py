"""A worker with one place lets a starved job of any of its queues through, whatever the turns of the queues are."""

import asyncio

import pytest
from msgspec.structs import replace
from stage import SETTINGS, Stage, play, working

from standfast import Standfast
from standfast.model.states import State
from standfast.worker.options import ServedQueues

MAX_WAIT = 10.0
ONE_PLACE = replace(SETTINGS, concurrency=1, max_wait=MAX_WAIT)
SECONDS = 40


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("weights", [(1, 1), (1, 1, 1, 1), (3, 1), (6, 3, 1)])
def test_each_queue_lets_its_starved_job_through(weights, named) -> None:
    """While urgent ones never end, the humble job of every queue starts soon after max_wait, named or not."""

    async def scenario() -> None:
        app = Standfast("memory://")

        @app.task
        async def take_a_second() -> None:
            await asyncio.sleep(1)

        names = tuple(f"q{number}" for number in range(len(weights)))
        stage = Stage(app, ONE_PLACE, served=ServedQueues(names, weights) if named else None)
        for name in names:
            take_a_second.options(queue=name, priority=9).enqueue_many([{}] * 2 * SECONDS)
        humble = [take_a_second.options(queue=name).enqueue() for name in names]
        async with working(stage):
            await asyncio.sleep(SECONDS)
            assert [stage.job(handle).state for handle in humble] == [State.COMPLETED] * len(names)

    play(scenario)
