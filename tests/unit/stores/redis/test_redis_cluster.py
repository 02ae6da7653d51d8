"""A Redis Cluster: all of a namespace on one master, which is found, and found again wherever it goes."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis_scene import Open, scripted, until_answered

from servers import RedisCluster, RedisServer
from standfast.errors import StoreError, StoreUnavailableError
from standfast.model.job import NewJob
from standfast.stores.verb import Access, Script

LONG = 30.0
SLOT = key_slot(b"{standfast}")


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[RedisCluster]:
    """Give a cluster to change."""
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(own_cluster: RedisCluster) -> RedisCluster:
    own_cluster.flush()
    return own_cluster


def holder(cluster: RedisCluster) -> RedisServer:
    """Return the node that has the slot of our keys."""
    with cluster.nodes[0].connect() as own:
        for first, last, (_, port, *_), *_ in _ask(own, "CLUSTER", "SLOTS"):
            if first <= SLOT <= last:
                return next(node for node in cluster.nodes if node.port == port)
    raise AssertionError("nobody has the slot")


def begin_move(source: RedisServer, target: RedisServer) -> None:
    """Let the slot of our keys be on its way from one node to another."""
    with source.connect() as giver, target.connect() as taker:
        _ask(taker, "CLUSTER", "SETSLOT", SLOT, "IMPORTING", _ask(giver, "CLUSTER", "MYID"))
        _ask(giver, "CLUSTER", "SETSLOT", SLOT, "MIGRATING", _ask(taker, "CLUSTER", "MYID"))


def move_keys(source: RedisServer, target: RedisServer, most: int) -> int:
    """Move so many keys of the slot at most; return how many."""
    with source.connect() as giver:
        keys = _ask(giver, "CLUSTER", "GETKEYSINSLOT", SLOT, most)
        if keys:
            _ask(giver, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "AUTH", target.password, "KEYS", *keys)
        return len(keys)


def refusals(node: RedisServer) -> int:
    """Return how many scripts this node has refused."""
    with node.connect() as own:
        return int(own.info("commandstats").get("cmdstat_evalsha", {}).get("rejected_calls", 0))


def keys_at(node: RedisServer) -> set[str]:
    """Return the keys of the slot that a node has."""
    with node.connect() as own:
        return {bytes(key).decode() for key in _ask(own, "CLUSTER", "GETKEYSINSLOT", SLOT, 1000)}


def end_move(source: RedisServer, target: RedisServer, cluster: RedisCluster) -> None:
    """Move the keys, and tell everybody."""
    while move_keys(source, target, 100):
        pass
    with target.connect() as taker:
        name = _ask(taker, "CLUSTER", "MYID")
        for node in (target, source, *cluster.nodes):
            with node.connect() as own:
                _ask(own, "CLUSTER", "SETSLOT", SLOT, "NODE", name)


def other_than(node: RedisServer, cluster: RedisCluster) -> RedisServer:
    return next(other for other in cluster.nodes if other is not node)


def rings(node: RedisServer) -> int:
    with node.connect() as own:
        own.execute_command("READONLY")
        return int(own.get("{standfast}:arrivals") or 0)


def _ask(own: "redis.Redis[Any]", *words: Any) -> Any:
    """Send a command, and return the answer as it came."""
    connection = own.connection_pool.get_connection()
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        own.connection_pool.release(connection)


def test_any_node_leads_to_the_right_one(cluster: RedisCluster, open_store: Open) -> None:
    """A URL may name any of them; the keys are where they belong."""
    for node in cluster.nodes:
        backend = open_store(node.url().replace("redis://", "redis+cluster://").removesuffix("/0"))
        backend.run(scripted("ring", "work"))
    assert rings(holder(cluster)) == 3


def test_one_of_the_nodes_in_the_url_may_be_away(cluster: RedisCluster, open_store: Open) -> None:
    """The next one is asked."""
    url = cluster.url().replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:")
    open_store(url).run(scripted("ring", "work"))
    assert rings(holder(cluster)) == 1


def test_namespaces_may_be_on_different_nodes(cluster: RedisCluster, open_store: Open) -> None:
    """Each is found where its own hash tag says."""
    names = [f"tenant{number}" for number in range(8)]
    for name in names:
        open_store(cluster.url(), namespace=name).run(scripted("ring", "work"))
    kept = []
    for node in cluster.nodes:
        with node.connect() as own:
            kept.append({key.decode() for key in own.scan_iter()})
    assert set.union(*kept) == {f"{{standfast:{name}}}:arrivals" for name in names}
    assert sum(map(bool, kept)) > 1


async def test_a_slot_that_moves(cluster: RedisCluster, open_store: Open) -> None:
    """On its way nothing is written to either end; afterwards calls and listeners go on at the other node."""
    backend = open_store(cluster.url(), timeout=0.5)
    backend.run(backend.verbs.enqueue([NewJob("first", "task", b"")]))
    source = holder(cluster)
    target = other_than(source, cluster)

    listener = backend.bell.listen()
    try:
        heard = [await listener.wait(LONG), await listener.wait(0.1)]
        await asyncio.to_thread(begin_move, source, target)
        with pytest.raises(StoreUnavailableError, match="moves the slot of these jobs to another node"):
            await backend.arun(backend.verbs.enqueue([NewJob("second", "task", b"")]))
        with target.connect() as own:
            assert own.dbsize() == 0
        await asyncio.to_thread(end_move, source, target, cluster)
        await backend.arun(backend.verbs.enqueue([NewJob("second", "task", b"")]))
        assert [*heard, await listener.wait(LONG)] == [True, False, True]
    finally:
        listener.close()
    assert holder(cluster) is target
    found = [backend.run(backend.verbs.get(name)) for name in ("first", "second")]
    assert [job.id for job in found if job] == ["first", "second"]
    with source.connect() as own:
        assert own.dbsize() == 0


async def test_calls_wait_for_the_end_of_a_move(cluster: RedisCluster, open_store: Open) -> None:
    """With half of the keys on either node, and with all on the new one: all succeed once the slot is there.

    A script that was sent to the new node before would not see, or not write, all that it should.
    """
    backend = open_store(cluster.url(), timeout=LONG)
    source = holder(cluster)
    target = other_than(source, cluster)
    backend.run(backend.verbs.enqueue([NewJob(name, "task", b"") for name in ("first", "second")]))
    await asyncio.to_thread(begin_move, source, target)
    asked = [[NewJob(f"{way}{number}", "task", b"") for number in range(3)] for way in ("loop", "thread")]
    calls = [
        asyncio.create_task(backend.arun(backend.verbs.enqueue(asked[0]))),
        asyncio.create_task(asyncio.to_thread(backend.run, backend.verbs.enqueue(asked[1]))),
    ]
    for moved in (3, 100):
        before = refusals(source)
        await asyncio.to_thread(move_keys, source, target, moved)
        while refusals(source) < before + 4:  # each has tried again since
            assert [call.exception() for call in calls if call.done()] == []
            await asyncio.sleep(0.01)
        assert keys_at(target) & {f"{{standfast}}:job:{job.id}" for jobs in asked for job in jobs} == set()
    await asyncio.to_thread(end_move, source, target, cluster)
    await asyncio.gather(*calls)
    names = ["first", "second", *(job.id for jobs in asked for job in jobs)]
    found = [backend.run(backend.verbs.get(name)) for name in names]
    assert [job.id for job in found if job] == names


async def test_a_node_that_restarts(cluster: RedisCluster, open_store: Open) -> None:
    """While it is away calls say so in time; when it is back they succeed, and listeners hear."""
    backend = open_store(cluster.url(), timeout=2)
    node = holder(cluster)
    with node.connect() as own:
        _ask(own, "CLUSTER", "SAVECONFIG")

    listener = backend.bell.listen()
    try:
        heard = [await listener.wait(LONG), await listener.wait(0.1)]
        await asyncio.to_thread(node.stop)
        with pytest.raises(StoreUnavailableError):
            await backend.arun(scripted("ring", "work"))
        await asyncio.to_thread(node.start)
        heard.append(await listener.wait(LONG))
        await asyncio.to_thread(until_answered, backend)
        assert [*heard, await listener.wait(LONG)] == [True, False, True, True]
    finally:
        listener.close()


def test_a_node_that_was_not_named_as_such(cluster: RedisCluster, open_store: Open) -> None:
    """With redis:// a node that has other slots refuses, and we say what to write."""
    wrong = other_than(holder(cluster), cluster)
    with pytest.raises(StoreError, match=r"is a node of a cluster: write redis\+cluster://"):
        open_store(wrong.url()).run(scripted("ring", "work"))
    with pytest.raises(StoreError, match=r"is a node of a cluster: write redis\+cluster://"):
        open_store(wrong.url(3)).run(scripted("ring", "work"))


def test_a_server_that_is_no_cluster(redis_url: str, open_store: Open) -> None:
    """The other way round."""
    url = redis_url.replace("redis://", "redis+cluster://").rpartition("/")[0]
    with pytest.raises(StoreError, match="is no cluster: write redis:// in the URL"):
        open_store(url).run(scripted("ring", "work"))


def test_a_wrong_password_in_a_cluster(cluster: RedisCluster, open_store: Open) -> None:
    """It is found out while asking the way."""
    url = cluster.url().replace(cluster.password, "hunter2")
    with pytest.raises(StoreError, match="refuses the user or the password") as refused:
        open_store(url).run(scripted("ring", "work"))
    assert "hunter2" not in str(refused.value)


def test_a_moved_slot_is_followed_once(cluster: RedisCluster, open_store: Open) -> None:
    """A store that knows the old place finds the new one within the same call."""
    backend = open_store(cluster.url())
    backend.run(scripted("ring", "work"))
    source = holder(cluster)
    target = other_than(source, cluster)
    begin_move(source, target)
    end_move(source, target, cluster)
    backend.run(scripted("ring", "work", access=Access.BEAT))
    assert rings(target) == 2
    assert backend._engine().call(Script("listen", ("work", "ear", ""))) == b"2"
