"""Releases that keep jobs in different ways do not meet on the same jobs."""

from datetime import timedelta

import pytest
import redis

from holdfast.errors import SchemaError
from holdfast.store.protocol import WorkerInfo
from holdfast.store.redis.backend import RedisBackend
from holdfast.store.redis.versions import FORMAT


def test_another_format_is_refused(redis_url: str) -> None:
    """A worker says in which format it keeps jobs, and who knows another one does not touch them."""
    backend = RedisBackend(redis_url)
    backend.run(backend.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15))))
    backend.close()
    with redis.Redis.from_url(redis_url) as own:
        assert own.get("{holdfast}:format") == str(FORMAT).encode()
        own.set("{holdfast}:format", FORMAT + 1)
    later = RedisBackend(redis_url)
    with pytest.raises(SchemaError, match=rf"format {FORMAT + 1}, and this release knows {FORMAT}: use the same"):
        later.run(later.verbs.count())
    later.close()
