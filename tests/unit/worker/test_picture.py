"""Where coroutines are: each task by name, jobs first and by id, down to the innermost await."""

import asyncio
from types import SimpleNamespace

from standfast.worker.control import MOST_TASKS, picture, stack_of


async def inner(gate: asyncio.Event) -> None:
    await gate.wait()


async def handler(gate: asyncio.Event) -> None:
    await inner(gate)


def test_a_picture_of_all_tasks() -> None:
    """The job comes first, and all its coroutines are there, not the outermost alone."""

    async def story() -> str:
        gate = asyncio.Event()
        other = asyncio.create_task(inner(gate), name="a loop")
        job = asyncio.create_task(handler(gate))
        await asyncio.sleep(0)
        control = SimpleNamespace(attempt=job, claim=SimpleNamespace(job_id="j1", task="send"))
        told = picture([control, SimpleNamespace(attempt=None)])
        gate.set()
        await asyncio.gather(job, other)
        return told

    told = asyncio.run(story())
    assert told.startswith("job j1 of send (handler):\n")
    first, second = told.index("in handler\n"), told.index("in inner\n")
    assert first < second
    assert "in wait\n" in told
    assert "a loop (inner):" in told
    assert "job j1" not in told[10:]


def test_no_picture_is_endless() -> None:
    """Of thousands of tasks the first are shown, and how many more there are."""

    async def story() -> str:
        gate = asyncio.Event()
        tasks = [asyncio.create_task(inner(gate)) for _ in range(MOST_TASKS + 4)]
        await asyncio.sleep(0)
        told = picture([])
        gate.set()
        await asyncio.gather(*tasks)
        return told

    assert asyncio.run(story()).endswith("and 5 more")


def test_nothing_to_see() -> None:
    """Where there is no task, there is no stack."""
    assert stack_of(None) == ""
