"""Releases that keep jobs in different ways do not meet on the same jobs."""

from datetime import timedelta

import pytest
import redis

from conformance.harness import Harness
from standfast.errors import SchemaError
from standfast.model.crash import DeathKind
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.redis.engine import FORMAT
from standfast.stores.redis.store import RedisBackend
from standfast.stores.values import WorkerInfo
from standfast.testing.clock import FakeClock


def _harness(url: str) -> Harness:
    clock = FakeClock()
    return Harness(RedisBackend(url, clock=clock), clock)


def test_another_format_is_refused(redis_url: str) -> None:
    """A worker says in which format it keeps jobs, and who knows another one does not touch them."""
    backend = RedisBackend(redis_url)
    backend.run(backend.verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15))))
    backend.close()
    with redis.Redis.from_url(redis_url) as own:
        assert own.get("{standfast}:format") == str(FORMAT).encode()
        own.set("{standfast}:format", FORMAT + 1)
    later = RedisBackend(redis_url)
    with pytest.raises(SchemaError, match=rf"format {FORMAT + 1}, and this release knows {FORMAT}: use the same"):
        later.run(count_states(later.verbs))
    later.close()


def test_a_newer_format_stays(redis_url: str) -> None:
    """A process that was connected before a newer release raised the format does not lower it again."""
    backend = RedisBackend(redis_url)
    backend.run(backend.verbs.register(WorkerInfo("first", "s", "host", 1, timedelta(seconds=15))))
    with redis.Redis.from_url(redis_url) as own:
        own.set("{standfast}:format", FORMAT + 1)
        backend.run(backend.verbs.register(WorkerInfo("second", "s", "host", 1, timedelta(seconds=15))))
        assert own.get("{standfast}:format") == str(FORMAT + 1).encode()
    backend.close()


def test_jobs_of_the_format_before_go_on(redis_url: str) -> None:
    """A suspect that is to run alone, as all did, still does; and the first worker that comes raises the format."""
    harness = _harness(redis_url)
    placed = harness.place(State.RUNNING)
    harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))
    with redis.Redis.from_url(redis_url) as own:
        assert own.smembers("{standfast}:lanes:default") == {b"1:0"}
        assert own.hget(f"{{standfast}}:life:{placed.job_id}", "o") == b"1"
        own.set("{standfast}:format", FORMAT - 1)
        harness.backend.close()
        harness.backend = RedisBackend(redis_url, clock=harness.clock)
        assert harness.job(placed.job_id).group == 1
        assert harness.claimed_ids(harness.register(), group=1) == [placed.job_id]
        assert own.get("{standfast}:format") == str(FORMAT).encode()
    harness.backend.close()
