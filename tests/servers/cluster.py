"""Three Redis masters that share the slots of one cluster."""

import time
from contextlib import ExitStack
from typing import Any, Self

from servers.process import PATIENCE, POLL, free_port
from servers.redis import RedisServer

MASTERS = 3
SLOTS = 16_384
BUS = 10_000
"""How far from a node's port its bus is."""


class RedisCluster:
    """Masters without replicas: enough to send each key where it belongs."""

    def __init__(self) -> None:
        self.nodes: list[RedisServer] = []
        self._running = ExitStack()

    @property
    def password(self) -> str:
        """The password of every node."""
        return self.nodes[0].password

    def __enter__(self) -> Self:
        """Start the nodes, let them meet, and return once each of them says that all slots are served."""
        with ExitStack() as running:
            for _ in range(MASTERS):
                self.nodes.append(running.enter_context(_node(self.nodes)))
            for number, node in enumerate(self.nodes):
                self._join(number, node)
            self._wait_until_whole()
            self._running = running.pop_all()
        return self

    def url(self) -> str:
        """Return the URL of the cluster, by one of its nodes."""
        return self.nodes[0].url().replace("redis://", "redis+cluster://").removesuffix("/0")

    def __exit__(self, *_: object) -> None:
        """End every node."""
        self._running.close()

    def flush(self) -> None:
        """Empty every node."""
        for node in self.nodes:
            with node.connect() as own:
                own.flushall()

    def _join(self, number: int, node: RedisServer) -> None:
        slots = range(number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS)
        with node.connect() as own:
            own.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            own.execute_command("CLUSTER", "ADDSLOTS", *slots)
            if number:
                own.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)

    def _wait_until_whole(self) -> None:
        give_up_at = time.monotonic() + PATIENCE
        for node in self.nodes:
            with node.connect() as own:
                while not _is_whole(own.execute_command("CLUSTER", "INFO")):
                    assert time.monotonic() < give_up_at, "the nodes of the cluster did not come together"
                    time.sleep(POLL)


def _is_whole(said: Any) -> bool:
    info = said if isinstance(said, dict) else dict(line.split(":") for line in said.decode().split())
    told = {str(name): str(value) for name, value in info.items()}
    return told["cluster_state"] == "ok" and told["cluster_known_nodes"] == str(MASTERS)


def _node(others: list[RedisServer]) -> RedisServer:
    node = RedisServer(cluster_enabled="yes", cluster_config_file="nodes.conf", cluster_node_timeout=5000)
    node.port = free_port(BUS)
    if others:
        node.password = others[0].password
    return node
