"""An empty store of each kind, on a clock that the test moves."""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from redis import Redis

from standfast.model.clock import Clock
from standfast.stores.backend import Backend
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.sqlite.store import SqliteBackend

Opener = Callable[[pytest.FixtureRequest, Path, Clock], Backend]


def open_memory(_: pytest.FixtureRequest, __: Path, clock: Clock) -> Backend:
    return MemoryBackend(clock)


def open_sqlite(_: pytest.FixtureRequest, folder: Path, clock: Clock) -> Backend:
    return SqliteBackend(folder / "jobs.db", clock=clock)


def open_postgres(request: pytest.FixtureRequest, _: Path, clock: Clock) -> Backend:
    return _heir(_emptied(request, request.getfixturevalue("shared_postgres")), clock)


def open_pgbouncer(request: pytest.FixtureRequest, _: Path, clock: Clock) -> Backend:
    """Open the store through PgBouncer in transaction mode."""
    url = request.getfixturevalue("shared_pgbouncer").url(pooler="transaction")
    return _postgres(_emptied(request, url), clock)


def open_redis(request: pytest.FixtureRequest, _: Path, clock: Clock) -> Backend:
    url = request.getfixturevalue("shared_redis")
    with Redis.from_url(url) as own:
        own.flushdb()
    return _redis(url, clock)


def open_redis_cluster(request: pytest.FixtureRequest, _: Path, clock: Clock) -> Backend:
    cluster = request.getfixturevalue("shared_redis_cluster")
    cluster.flush()
    return _redis(cluster.url(), clock)


STORES: Mapping[str, Opener] = MappingProxyType(
    {"memory": open_memory, "sqlite": open_sqlite, "postgres": open_postgres, "redis": open_redis}
)


def with_query(url: str, **query: str) -> str:
    """Return the URL with these parameters too."""
    parts = urlsplit(url)
    return parts._replace(query=urlencode([*parse_qsl(parts.query), *query.items()])).geturl()


def make_tables(url: str) -> None:
    """Let the store make its tables."""
    with closing(_postgres(url, None)) as backend:
        backend.run(count_states(backend.verbs))


def _emptied(request: pytest.FixtureRequest, url: str) -> str:
    schema = request.getfixturevalue("emptied_schema")
    schema.empty()
    return with_query(url, schema=schema.name)


def _postgres(url: str, clock: Clock | None) -> Backend:
    from standfast.stores.postgres.store import PostgresBackend  # noqa: PLC0415 - most tests need no such store

    return PostgresBackend(url, clock=clock)


def _heir(url: str, clock: Clock) -> Backend:
    """Open a store that takes over the idle connections of the last one: to connect takes longer than most tests.

    All that it knows of jobs and of the server is its own.
    """
    from standfast.stores.postgres.store import PostgresBackend  # noqa: PLC0415 - most tests need no such store

    class Heir(PostgresBackend):
        def close(self) -> None:
            left = self._engine()._jobs._idle
            _idle.setdefault(url, deque()).extend(left)
            left.clear()
            super().close()

    backend = Heir(url, clock=clock)
    engine = backend._engine()
    engine._prepared = bool(_idle.get(url))
    engine._jobs._idle.extend(_idle.pop(url, ()))
    return backend


_idle: dict[str, deque[Any]] = {}
"""Connections to each URL that nobody uses."""


def _redis(url: str, clock: Clock) -> Backend:
    from standfast.stores.redis.store import RedisBackend  # noqa: PLC0415 - most tests need no such store

    return RedisBackend(url, clock=clock)
