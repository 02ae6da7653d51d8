"""PgBouncer in transaction mode, in front of a PostgreSQL server."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

import psycopg

from servers.process import PATIENCE, MissingPartError, Server, give_away, within_reach

_SYSTEM = "/usr/sbin:/usr/local/sbin"
_PACKAGES = ("pgbouncer", "libevent-2.1-7", "libc-ares2")
_INI = """\
[databases]
pooled = host={host} port={port} dbname={database} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
logfile = {folder}/pgbouncer.log
{more}
"""


class PgBouncer(Server):
    """A pooler that gives a connection to each transaction anew, and no session to anybody.

    It takes more settings of its own: `PgBouncer(url, default_pool_size="1")`.
    """

    kind = "pgbouncer"
    stop_signal = signal.SIGINT

    def __init__(self, behind: str, **settings: str) -> None:
        self._behind = urlsplit(behind)
        super().__init__(settings)

    def url(self, **query: str) -> str:
        """Return the URL of the pooled database."""
        told = f"?{urlencode(query)}" if query else ""
        return f"postgresql://pooled:{self.password}@127.0.0.1:{self.port}/pooled{told}"

    def _prepare(self) -> None:
        (self.folder / "users").write_text(f'"pooled" "{self.password}"\n')
        ini = _INI.format(
            host=self._behind.hostname,
            port=self._behind.port or 5432,
            database=self._behind.path.lstrip("/"),
            user=unquote(self._behind.username or ""),
            password=unquote(self._behind.password or ""),
            own_port=self.port,
            folder=self.folder,
            more="\n".join(f"{name} = {value}" for name, value in self.settings.items()),
        )
        (self.folder / "pgbouncer.ini").write_text(ini)
        give_away(self.folder)

    def _command(self) -> Sequence[str | Path]:
        return [self._installed / "pgbouncer", self.folder / "pgbouncer.ini"]

    def _surroundings(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": str(self._installed)}

    @property
    def _installed(self) -> Path:
        return within_reach(find_installed(), self.folder)

    def _check(self) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=round(PATIENCE)) as own:
            own.execute("SELECT 1")


@cache
def find_installed() -> Path:
    """Return the folder of the program: that of the system, else one made from Debian's packages."""
    on_path = shutil.which("pgbouncer") or shutil.which("pgbouncer", path=_SYSTEM)
    if on_path:
        return Path(on_path).resolve().parent
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "standfast-tests" / "pgbouncer"
    if not (kept / "pgbouncer").exists():
        kept.mkdir(parents=True, exist_ok=True)
        _unpack_debian(kept)
    return kept


def _unpack_debian(into: Path) -> None:
    """Fetch the packages and keep the program with its libraries; nothing is installed, no daemon starts."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run(["apt-get", "download", *_PACKAGES], folder)
            for package in Path(folder).glob("*.deb"):
                _run(["dpkg", "-x", str(package), "."], folder)
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or error
            raise MissingPartError(
                "no PgBouncer for the tests: install Debian's package (apt-get install pgbouncer), or any other so"
                f" that pgbouncer is on PATH. Fetching it did not work: {str(told).strip()[-500:]}"
            ) from None
        for library in Path(folder).glob("usr/lib/**/*.so.*"):
            shutil.copy(library, into)
        shutil.copy(Path(folder) / "usr/sbin/pgbouncer", into)  # the last, so that a folder with it has all


def _run(words: Sequence[str], folder: str) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=PATIENCE)
