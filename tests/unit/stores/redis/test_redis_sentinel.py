"""Sentinels: the master of a service is asked for, and after a failover the new one is found."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import redis
from redis_scene import Open, Servers, scripted, until_answered

from servers import RedisServer
from servers.process import give_away
from standfast.errors import StoreError, StoreUnavailableError

LONG = 60.0
_CONF = """\
bind 127.0.0.1
port {port}
requirepass {password}
sentinel monitor main 127.0.0.1 {master} 1
sentinel auth-pass main {master_password}
sentinel down-after-milliseconds main 300
sentinel failover-timeout main 2000
"""


class Sentinel(RedisServer):
    """One who watches a master and its replicas, and decides alone."""

    kind = "sentinel"

    def __init__(self, master: RedisServer) -> None:
        super().__init__()
        conf = self.folder / "sentinel.conf"
        conf.write_text(
            _CONF.format(
                port=self.port, password=self.password, master=master.port, master_password=master.password
            )
        )
        give_away(conf)

    def _command(self) -> Sequence[str | Path]:
        return [self._binary, self.folder / "sentinel.conf", "--sentinel"]

    def store_url(self, master: RedisServer, service: str = "main") -> str:
        where = f"127.0.0.1:{self.port}/{service}"
        return f"redis+sentinel://:{master.password}@{where}?sentinel_password={self.password}"


def follow(replica: RedisServer, master: RedisServer) -> None:
    """Let one server follow another; they share a password, as those of a service do."""
    with replica.connect() as own:
        own.config_set("masterauth", master.password)
        own.config_set("requirepass", master.password)
        own.replicaof("127.0.0.1", master.port)
    replica.password = master.password


def test_the_new_master_is_found(redis_server: Servers, open_store: Open) -> None:
    """When the master dies, calls say so in time, and go on at the replica that took over; so do listeners."""
    master, replica = redis_server(), redis_server()
    with master.connect() as own:
        own.config_set("masterauth", master.password)
    follow(replica, master)
    with Sentinel(master) as sentinel:
        backend = open_store(sentinel.store_url(master), timeout=2)
        with sentinel.connect() as own:
            _until_known(own)

        async def scene() -> list[bool]:
            listener = backend.bell.listen()
            try:
                heard = [await listener.wait(LONG), await listener.wait(0.1)]
                await backend.arun(scripted("ring", "work"))
                heard.append(await listener.wait(LONG))
                await asyncio.to_thread(master.kill)
                with pytest.raises(StoreUnavailableError):
                    await backend.arun(scripted("ring", "work"))
                await asyncio.to_thread(until_answered, backend)
                return [*heard, await listener.wait(LONG)]
            finally:
                listener.close()

        assert asyncio.run(scene()) == [True, False, True, True]
        with replica.connect() as own:
            assert own.role()[0] == b"master"
            assert int(own.get("{standfast}:arrivals") or 0) >= 1


def test_a_service_that_nobody_watches(redis_server: Servers, open_store: Open) -> None:
    """The name is what to mend."""
    master = redis_server()
    with Sentinel(master) as sentinel, pytest.raises(StoreError, match="is not known there: write the name"):
        open_store(sentinel.store_url(master, "other")).run(scripted("ring", "work"))


def _until_known(own: "redis.Redis[bytes]") -> None:
    """Return once the sentinel knows the replica, without which there is nobody to take over."""
    while not own.sentinel_slaves("main"):
        os.sched_yield()
