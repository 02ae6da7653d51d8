"""A store on the shared Redis server, and what opens others."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from redis_scene import LONG, Connected, Open

from conformance import Harness
from standfast.stores.redis.store import RedisBackend
from standfast.testing import FakeClock


@pytest.fixture
def open_store() -> Iterator[Open]:
    """Give what opens a store by its URL, and closes it at the end."""
    with ExitStack() as opened:

        def open_one(url: str, **options: Any) -> RedisBackend:
            backend = RedisBackend(url, **options)
            opened.callback(backend.close)
            return backend

        yield open_one


@pytest.fixture
def backend(redis_url: str, open_store: Open) -> RedisBackend:
    return open_store(redis_url)


@pytest.fixture
def store(redis_url: str, open_store: Open) -> Harness:
    """An empty store on a clock that the test moves."""
    clock = FakeClock()
    return Harness(open_store(redis_url, clock=clock), clock)


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    """The database that the store is in."""
    with redis.Redis.from_url(redis_url) as own:
        yield own


@pytest.fixture
def connected(redis_url: str) -> Iterator[Connected]:
    """Give what tells whether so many more are connected than before: the server may notice a moment later."""
    with redis.Redis.from_url(redis_url) as own:
        before = len(own.client_list())

        def is_so(number: int) -> bool:
            give_up_at = time.monotonic() + LONG
            while len(own.client_list()) - before != number:
                if time.monotonic() > give_up_at:
                    return False
            return True

        yield is_so
