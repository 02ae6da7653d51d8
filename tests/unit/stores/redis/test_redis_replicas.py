"""What doctor says where a replica follows the server, and that its remedy works."""

from servers import RedisServer, ValkeyServer
from standfast.stores.doctor import Finding, Severity
from standfast.stores.redis.doctor import examine_redis


def replicas(server: RedisServer) -> Finding:
    examination = examine_redis(server.url(), None, None, deep=False)
    [found] = [each for each in examination.findings if each.check == "replicas"]
    return found


def test_a_master_that_waits_for_nobody() -> None:
    """Which promise that breaks is said; the remedy is a command, after which the loss is bounded."""
    with ValkeyServer() as master:
        replica = master.replica()
        try:
            found = replicas(master)
            assert found.severity is Severity.WARNING
            assert "against the promise that an accepted job is kept" in found.says
            with master.connect() as own:
                own.execute_command(*found.remedy.split("`")[1].split())
            assert "writes stop when they lag by 10 s" in replicas(master).says
        finally:
            replica.close()
