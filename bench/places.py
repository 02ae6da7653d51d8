"""Where contenders meet: a store that is new for each of them in each round.

The servers are real ones, private, with their usual durability: PostgreSQL with fsync, Redis with an append-only
file written every second: the first that is found, as in the tests.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from servers import PostgresServer, RedisServer  # noqa: E402 - found beside the tests

_numbers = count()


@dataclass(frozen=True, slots=True)
class Place:
    """An empty store, the process that serves it if one does, and a folder for whatever a contender notes."""

    url: str
    folder: Path
    server: int | None = None


Places = Callable[[], AbstractContextManager[Place]]


@contextmanager
def _folder() -> Iterator[Path]:
    """Give a fresh folder of this file system: a temporary one may live in memory, where a commit is free."""
    with tempfile.TemporaryDirectory(prefix="standfast-bench-", dir=Path.cwd()) as folder:
        yield Path(folder)


@contextmanager
def sqlite_places() -> Iterator[Places]:
    """Give places with a file each."""

    @contextmanager
    def place() -> Iterator[Place]:
        with _folder() as folder:
            yield Place(f"sqlite:///{folder / 'jobs.db'}", folder)

    yield place


@contextmanager
def postgres_places() -> Iterator[Places]:
    """Start a server, and give places with a database each."""
    with PostgresServer() as server:

        @contextmanager
        def place() -> Iterator[Place]:
            name = f"bench_{next(_numbers)}"
            with server.connect() as own, _folder() as folder:
                own.execute(f"CREATE DATABASE {name}")
                try:
                    yield Place(server.url().removesuffix("/postgres") + f"/{name}", folder, server.pid)
                finally:
                    own.execute(f"DROP DATABASE {name} WITH (FORCE)")
                    own.execute("CHECKPOINT")

        yield place


@contextmanager
def redis_places() -> Iterator[Places]:
    """Start a server, and give places on it, emptied before and after.

    Its file is not written anew when it has grown: that would fall on whoever is measured just then.
    """
    with RedisServer(appendonly="yes", auto_aof_rewrite_percentage=0) as server:

        @contextmanager
        def place() -> Iterator[Place]:
            with server.connect() as own, _folder() as folder:
                own.flushall()
                try:
                    yield Place(server.url(), folder, server.pid)
                finally:
                    own.flushall()

        yield place


PLACES: dict[str, Callable[[], AbstractContextManager[Places]]] = {
    "sqlite": sqlite_places,
    "postgres": postgres_places,
    "redis": redis_places,
}
