"""Turns of workers in Redis: what they cost, and how releases that know none of them work beside."""

from datetime import timedelta

import pytest
import redis
from redis_scene import Open, Servers, calls_of, names_of

from conformance import Harness
from standfast.model.crash import DeathKind
from standfast.stores.values import Turn, Vitals, WorkerInfo
from standfast.testing import FakeClock


def _hire(store: Harness, *names: str, lease: float = 15) -> None:
    for name in names:
        store.run(store.verbs.register(WorkerInfo(name, "s", "host", 1, timedelta(seconds=lease))))


def _bury_as_before(server: redis.Redis, worker: str) -> None:
    """Remove a worker as a release does that knows nothing of turns."""
    server.hdel("{standfast}:workers", worker)
    server.zrem("{standfast}:leases", worker)


def test_a_beat_does_not_grow_with_the_fleet(redis_server: Servers, open_store: Open) -> None:
    """With ten times the workers and records, the server is told the same few commands."""
    private, clock = redis_server(), FakeClock()
    store = Harness(open_store(private.url(), clock=clock), clock)
    ran = []
    for size in (10, 100):
        _hire(store, *(f"w{number:03d}" for number in range(size)))
        for number in range(size):
            store.change(f"{size}-{number}", due_at=clock.now())
        store.beat("w007")
        ran.append(calls_of(private, lambda: store.beat("w007", polled_at=clock.now(), vitals=Vitals())))
    assert ran[0] == ran[1]
    assert sum(ran[0].values()) < 36
    assert "zmscore" not in ran[0]  # only the first of a round looks at all of them


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_who_was_buried_by_an_older_release_does_not_stay(store: Harness, server: redis.Redis, gone: str) -> None:
    """It left the worker in its round: the others leave it out, whichever of them it was."""
    _hire(store, "a", "b", "c")
    for name in "abc":
        store.beat(name, polled_at=store.clock.now())
    _bury_as_before(server, gone)
    rest = [name for name in "abc" if name != gone]
    for name in rest:
        store.beat(name)
    assert [store.beat(name).turns[name] for name in rest] == [
        Turn(place, 2, store.clock.now()) for place in range(2)
    ]
    assert server.zrange("{standfast}:peers:*", 0, -1) == [name.encode() for name in rest]
    assert server.zcard("{standfast}:polled:*") == 2


def test_the_poll_of_one_that_is_gone_is_no_news(store: Harness, server: redis.Redis) -> None:
    """Even before the first of a round has looked after it."""
    _hire(store, "a", "b", "c")
    early = store.clock.now()
    store.beat("a", polled_at=early)
    store.clock.advance(5)
    store.beat("c", polled_at=store.clock.now())
    _bury_as_before(server, "c")
    assert [turn.polled_at for turn in store.beat("b").turns.values()] == [early]


def test_a_worker_that_an_older_release_registered(store: Harness, server: redis.Redis) -> None:
    """Its registration says nothing of a round: it is shown, may beat and be buried, and is in nobody's way."""
    _hire(store, "new", "old")
    registration = server.hget("{standfast}:workers", "old")
    assert registration is not None
    assert registration.endswith(b"*")
    server.hset("{standfast}:workers", "old", registration.removesuffix(b"\xa1*"))
    server.zrem("{standfast}:peers:*", "old")
    assert store.beat("new").turns == {"new": Turn(0, 1)}
    assert [worker.info.id for worker in store.run(store.verbs.workers())] == ["new", "old"]
    assert store.beat("old").turns == {"old": Turn(0, 1)}
    for name in ("old", "new"):
        store.bury(name, DeathKind.STOPPED)
    assert not [name for name in names_of(server) if "peers" in name or "polled" in name]


def test_a_clock_that_was_set_back_raises_no_dead(store: Harness) -> None:
    """One marked dead stays out of the round, and of the leases to wait for, though its own seems to last again."""
    _hire(store, "a")
    store.clock.advance(16)
    _hire(store, "b")
    _hire(store, "c", lease=20)
    assert store.run(store.verbs.condemn(frozenset({"a"}))) == {"a"}
    store.clock.step_wall(-10)
    answer = store.beat("b")
    assert (answer.expired, answer.next_expiry) == ({"a"}, timedelta(seconds=20))
    assert answer.turns == {"b": Turn(0, 2)}


def test_how_one_was_that_an_older_release_buried_is_forgotten(store: Harness, server: redis.Redis) -> None:
    """It knows nothing of vitals: the next registration takes away what it left."""
    _hire(store, "a", "b")
    for name in "ab":
        store.beat(name, vitals=Vitals())
    _bury_as_before(server, "a")
    _hire(store, "c")
    assert server.hkeys("{standfast}:vitals") == [b"b"]
    store.bury("b", DeathKind.STOPPED)
    assert not server.exists("{standfast}:vitals")


def test_vitals_that_cannot_be_read_are_no_news(store: Harness, server: redis.Redis) -> None:
    """Nonsense in the store hides nobody."""
    _hire(store, "a")
    server.hset("{standfast}:vitals", "a", b"\xff{")
    [seen] = store.run(store.verbs.workers())
    assert (seen.info.id, seen.vitals) == ("a", None)
