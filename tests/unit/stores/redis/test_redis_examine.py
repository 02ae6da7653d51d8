"""What doctor says about a Redis server: which promise its settings break, in plain words, and how to mend it."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis_scene import Open, Servers

from standfast.model.job import NewJob
from standfast.stores.doctor import Examination, Finding, Severity
from standfast.stores.redis.doctor import Said, examine_redis, judge_server
from standfast.testing import FakeClock

KEEPS = {"appendonly": "yes", "appendfsync": "always"}


def examine(url: str, **options: Any) -> Examination:
    return examine_redis(url, options.get("namespace"), options.get("clock"), deep=False)


def finding(examination: Examination, check: str) -> Finding:
    [found] = [each for each in examination.findings if each.check == check]
    return found


def test_a_server_in_order(redis_server: Servers, open_store: Open) -> None:
    """Everything is ok, and it says what is promised."""
    server = redis_server(**KEEPS)
    backend = open_store(server.url())
    backend.run(backend.verbs.enqueue([NewJob("job", "task", b"")]))
    examination = examine(server.url())
    assert examination.usable
    assert {each.severity for each in examination.findings} == {Severity.OK}
    assert [each.check for each in examination.findings] == [
        "redis",
        "durability",
        "eviction",
        "memory",
        "replicas",
        "store",
    ]
    assert f"127.0.0.1:{server.port}/0" in finding(examination, "redis").says
    assert "an accepted job survives a crash" in finding(examination, "durability").says
    assert not any(server.password in str(each) for each in examination.findings)


def test_a_place_that_nobody_has_used(redis_url: str, open_store: Open) -> None:
    """It is said, for each namespace by itself: whoever expects jobs there has the wrong URL or namespace."""
    backend = open_store(redis_url, namespace="shop")
    backend.run(backend.verbs.enqueue([NewJob("job", "task", b"")]))
    for namespace, where in ((None, "outside of namespaces"), ("blue", "in namespace blue")):
        examination = examine(redis_url, namespace=namespace)
        found = finding(examination, "store")
        assert (found.severity, found.says) == (Severity.WARNING, f"nothing of Standfast is there yet {where}")
        assert "--namespace" in found.remedy
        assert examination.usable
    used = finding(examine(redis_url, namespace="shop"), "store")
    assert (used.severity, used.says) == (Severity.OK, "holds jobs of Standfast in namespace shop")


def test_looking_writes_nothing(redis_server: Servers) -> None:
    """Neither keys nor files change."""
    server = redis_server(**KEEPS)
    with server.connect() as own:
        examine(server.url())
        assert own.keys() == []
        assert own.info("persistence")["rdb_changes_since_last_save"] == 0


@pytest.mark.parametrize(
    ("settings", "check", "level", "words", "remedy"),
    [
        ({}, "durability", Severity.PROBLEM, "a restart of the server loses every accepted job", "appendonly yes"),
        (
            {"save": "3600 1 60 100"},
            "durability",
            Severity.PROBLEM,
            "(3600 s after 1 changes, 60 s after 100 changes): a crash loses every job accepted since the last one",
            "appendfsync always",
        ),
        (
            {"appendonly": "yes", "appendfsync": "everysec"},
            "durability",
            Severity.WARNING,
            "a crash of the machine may cost about the last second of accepted jobs; one of the server alone",
            "`CONFIG SET appendfsync always`",
        ),
        (
            {"appendonly": "yes", "appendfsync": "no"},
            "durability",
            Severity.WARNING,
            "half minute or more",
            "always",
        ),
        (
            {**KEEPS, "no-appendfsync-on-rewrite": "yes"},
            "durability",
            Severity.WARNING,
            "not while the file is rewritten",
            "`CONFIG SET no-appendfsync-on-rewrite no`",
        ),
        (
            {"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"},
            "eviction",
            Severity.PROBLEM,
            "allkeys-lru: when memory is short the server deletes any key, accepted jobs among them",
            "`CONFIG SET maxmemory-policy noeviction`",
        ),
        (
            {"maxmemory-policy": "volatile-ttl", "maxmemory": "100mb"},
            "eviction",
            Severity.WARNING,
            "forgets what has an expiry, such as keys kept after a job's end",
            "noeviction",
        ),
        ({"maxmemory-policy": "allkeys-lru"}, "eviction", Severity.WARNING, "while maxmemory is 0", "noeviction"),
        ({"maxmemory": "1mb"}, "memory", None, "of maxmemory (1.0 MB)", "raise `maxmemory`"),
    ],
)
def test_settings_that_break_a_promise(
    *, settings: dict[str, str], check: str, level: Severity | None, words: str, remedy: str, redis_server: Servers
) -> None:
    """It is said which one, and how to mend it; jobs can be run all the same."""
    server = redis_server()
    with server.connect() as own:
        for name, value in settings.items():
            own.config_set(name, value)
    examination = examine(server.url())
    found = finding(examination, check)
    assert level is None or found.severity is level
    assert found.severity is not Severity.OK
    assert words in found.says
    assert remedy in found.remedy
    assert examination.usable


def test_a_remedy_mends(redis_server: Servers) -> None:
    """What is to be typed is what the server takes."""
    server = redis_server()
    with server.connect() as own:
        for command in finding(examine(server.url()), "durability").remedy.split("`")[1::2]:
            if command != "CONFIG REWRITE":  # it was started without a file
                own.execute_command(*command.split())
    assert finding(examine(server.url()), "durability").severity is Severity.OK


def test_a_master_with_replicas(redis_server: Servers) -> None:
    """Nothing waits for a replica, so that a failover may lose jobs; the replica itself is of no use to us."""
    master, replica = redis_server(), redis_server()
    with replica.connect() as own:
        own.config_set("masterauth", master.password)
        own.replicaof("127.0.0.1", master.port)
        _until_linked(own)
    found = finding(examine(master.url()), "replicas")
    assert found.severity is Severity.WARNING
    assert "a failover may lose what was accepted just before it" in found.says
    at_replica = examine(replica.url())
    assert not at_replica.usable
    assert finding(at_replica, "replicas").remedy == "name the master in the URL"


@pytest.mark.parametrize(
    ("version", "least", "remedy"),
    [
        ("6.2.5", "1", "upgrade to Redis 7"),
        ("7.0.0", "0", "CONFIG SET min-replicas-to-write 1"),
        ("8.0.0", "1", ""),
    ],
)
def test_how_many_replicas_a_write_needs(version: str, least: str, remedy: str) -> None:
    """Before Redis 7 scripts are not held by it, and ours are scripts."""
    info = {"redis_version": version, "role": "master", "connected_slaves": "2"}
    said = Said(info, {"min-replicas-to-write": least, "min-replicas-max-lag": "4"})
    [found] = [each for each in judge_server(said) if each.check == "replicas"]
    assert found.severity is Severity.WARNING
    assert remedy in found.remedy
    assert ("lag by 4 s" in found.says) == (version == "8.0.0")


def test_a_disk_that_failed(redis_server: Servers) -> None:
    """A snapshot that could not be written is worth a word before everything stops."""
    server = redis_server()
    with server.connect() as own:
        (server.folder / "dump.rdb").mkdir()
        own.bgsave()
        _until(lambda: own.info("persistence")["rdb_last_bgsave_status"] != "ok")
    assert "the last snapshot failed" in finding(examine(server.url()), "disk").says
    said = Said({"aof_enabled": "1", "aof_last_write_status": "err"}, {})
    [found] = [each for each in judge_server(said) if each.check == "disk"]
    assert found.severity is Severity.PROBLEM


def test_a_user_who_may_not_read_settings(redis_server: Servers) -> None:
    """What INFO tells is used, and what is not known is said to be so."""
    server = redis_server(**KEEPS)
    with server.connect() as own:
        own.execute_command("ACL", "SETUSER", "some", "on", ">secret", "~{standfast*", "+@all", "-config")
    examination = examine(f"redis://some:secret@127.0.0.1:{server.port}/0")
    assert "may not read how often it reaches the disk" in finding(examination, "durability").says
    with server.connect() as own:
        own.execute_command("ACL", "SETUSER", "some", "-info")
    examination = examine(f"redis://some:secret@127.0.0.1:{server.port}/0")
    assert examination.usable
    assert [each.check for each in examination.findings] == ["redis"]
    assert "may not see its version" in finding(examination, "redis").says


@pytest.mark.parametrize("url", ["redis://:hunter2@127.0.0.1:1/0", "redis://:hunter2@nowhere.invalid/0"])
def test_no_server(url: str) -> None:
    """It is not usable, and there is something to do."""
    examination = examine(url)
    assert (examination.usable, examination.census) == (False, None)
    [found] = examination.findings
    assert found.severity is Severity.PROBLEM
    assert found.remedy
    assert "hunter2" not in str(found)


def test_a_user_who_may_not_run_scripts(redis_server: Servers) -> None:
    """Doctor finds out what a worker would."""
    server = redis_server()
    with server.connect() as own:
        own.execute_command("ACL", "SETUSER", "some", "on", ">secret", "+info", "+ping", "+config")
    examination = examine(f"redis://some:secret@127.0.0.1:{server.port}/0")
    assert not examination.usable
    assert "ACL SETUSER" in finding(examination, "store").remedy


def test_a_cluster(redis_cluster_url: str, shared_redis_cluster: Any) -> None:
    """By its own URL all is well; one of its nodes alone is not found again when the slot moves."""
    assert finding(examine(redis_cluster_url), "cluster").severity is Severity.OK
    found = [finding(examine(node.url()), "cluster") for node in shared_redis_cluster.nodes]
    assert {each.remedy for each in found} == {"write redis+cluster:// in the URL"}


def test_the_census(redis_url: str, open_store: Open) -> None:
    """Due jobs by queue, with those that wait for nobody but a worker, and what the store has seen of the time."""
    clock = FakeClock()
    backend = open_store(redis_url, clock=clock, namespace="own")
    empty = examine(redis_url, clock=clock, namespace="own").census
    assert empty is not None
    assert (empty.now, empty.workers, empty.due, empty.latest_at) == (clock.now(), (), (), None)
    first = clock.now()
    for number, queue in enumerate(["mail", "mail", "reports"]):
        backend.run(backend.verbs.enqueue([NewJob(f"job-{number}", "task", b"", queue=queue, priority=number)]))
        clock.advance(10)
    backend.run(backend.verbs.pause("reports"))
    census = examine(redis_url, clock=clock, namespace="own").census
    assert census is not None
    mail, reports = census.due
    assert (mail.name, mail.due, mail.oldest_due_at, mail.paused_at) == ("mail", 2, first, None)
    assert (reports.name, reports.due, reports.paused_at) == ("reports", 1, clock.now())
    assert (census.now, census.latest_at) == (clock.now(), clock.now())


def _until(holds: Callable[[], Any]) -> None:
    for _ in range(60_000):
        if holds():
            return
    raise AssertionError("it does not happen")


def _until_linked(own: "redis.Redis[Any]") -> None:
    _until(lambda: own.info("replication")["master_link_status"] == "up")
