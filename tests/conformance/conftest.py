"""One parametrised fixture over all stores."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.store.backend import Backend
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.sqlite.backend import SqliteBackend
from holdfast.testing import FakeClock

pytest.register_assert_rewrite("holdfast.testing.conformance")

from holdfast.testing.conformance import Harness  # noqa: E402 - its asserts must be rewritten first

Opener = Callable[[Path, FakeClock], Backend]

STORES: dict[str, Opener] = {
    "memory": lambda _, clock: MemoryBackend(clock),
    "sqlite": lambda folder, clock: SqliteBackend(folder / "jobs.db", clock=clock),
}


@pytest.fixture(params=sorted(STORES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    clock = FakeClock()
    backend = STORES[request.param](tmp_path, clock)
    yield Harness(backend, clock)
    backend.close()
