"""A store in a file of its own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from standfast.model.clock import Clock
from standfast.stores.sqlite.store import SqliteBackend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> Clock | None:
    """The time is real, unless a file of tests has a clock of its own."""
    return None


@pytest.fixture
def backend(path: Path, clock: Clock | None) -> Iterator[SqliteBackend]:
    with closing(SqliteBackend(path, clock=clock)) as backend:
        yield backend
