"""A worker that stops cancels whoever listens to the bell, often just when its own last write rings it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.stores.backend import Backend
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.sqlite.store import SqliteBackend


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    backend = MemoryBackend() if request.param == "memory" else SqliteBackend(tmp_path / "jobs.db")
    yield backend
    backend.close()


def test_a_ring_does_not_swallow_a_cancellation(backend: Backend) -> None:
    """However ring and cancellation fall together, who was cancelled does not go on listening."""

    async def cancel_when_it_rings(steps_between: int) -> None:
        listener = backend.bell.listen()
        waiting = asyncio.ensure_future(listener.wait(30))
        await asyncio.sleep(0.01)
        backend.bell.ring()
        for _ in range(steps_between):
            await asyncio.sleep(0)
        heard = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        listener.close()
        assert heard or waiting.cancelled()

    for steps_between in range(6):
        asyncio.run(cancel_when_it_rings(steps_between))
