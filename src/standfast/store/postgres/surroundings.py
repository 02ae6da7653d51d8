"""What a server's settings and its other users mean for jobs: kept or not, quick or slow. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from standfast.store.examination import KEPT, Finding
from standfast.store.postgres.connect import OLDEST_SERVER

SETTINGS = (
    "autovacuum",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "fsync",
    "full_page_writes",
    "max_connections",
    "server_encoding",
    "server_version",
    "server_version_num",
    "superuser_reserved_connections",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_counts",
    "wal_writer_delay",
)
"""The settings that are judged here."""

LONG_WRITE = 60
"""Seconds after which an open transaction that has written is worth a word."""
LONG_SNAPSHOT = 300
"""The same of one that only looks."""

_CROWDED = 0.8
_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class OldTransaction:
    """The oldest open transaction of its kind. Without a process it is a prepared one, of that name."""

    pid: int | None
    name: str
    seconds: int

    @property
    def told(self) -> str:
        """Who it is."""
        if self.pid is None:
            return f"a prepared transaction ('{self.name}')"
        return f"process {self.pid}" + (f" ('{self.name}')" if self.name else "")

    @property
    def remedy(self) -> str:
        """How to end it."""
        if self.pid is None:
            return f"`ROLLBACK PREPARED '{self.name}'` or COMMIT PREPARED ends it"
        return (
            f"`SELECT pg_terminate_backend({self.pid})` ends it;"
            " idle_in_transaction_session_timeout ends forgotten ones"
        )


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself to a user who sets nothing."""

    settings: Mapping[str, str]
    is_replica: bool
    connections: int
    writing: OldTransaction | None = None
    looking: OldTransaction | None = None

    @property
    def version(self) -> str:
        """Its version as people write it."""
        return self.settings["server_version"].partition(" ")[0]

    @property
    def is_too_old(self) -> bool:
        """Whether this release cannot work with it."""
        return int(self.settings["server_version_num"]) // 10_000 < OLDEST_SERVER

    def has(self, setting: str) -> bool:
        """Tell whether a setting is on."""
        return self.settings[setting] == "on"


def judge_server(server: Server) -> Iterator[Finding]:
    """Yield what is to be said about a server that can be reached."""
    yield _version(server)
    yield _writable(server)
    yield _durability(server)
    yield _encoding(server)
    yield _isolation(server)
    yield _connections(server)
    yield _vacuum(server)
    yield from _transactions(server)


def _version(server: Server) -> Finding:
    if server.is_too_old:
        remedy = f"upgrade the server to {OLDEST_SERVER} or newer"
        return Finding.problem("postgresql", f"PostgreSQL {server.version} is too old", remedy)
    return Finding.ok("postgresql", f"PostgreSQL {server.version}")


def _writable(server: Server) -> Finding:
    primary = "name the primary in the URL, or all hosts of it and target_session_attrs=read-write"
    if server.is_replica:
        return Finding.problem("writes", "this server is a replica, which takes no writes", primary)
    if server.has("default_transaction_read_only"):
        return Finding.problem(
            "writes",
            "default_transaction_read_only is on: no transaction may write",
            "`ALTER ROLE … SET default_transaction_read_only = off`, or the same of the database or the server",
        )
    return Finding.ok("writes", "the server takes writes")


def _durability(server: Server) -> Finding:
    if not server.has("fsync"):
        return Finding.problem(
            "durability",
            "fsync is off: a crash of the machine may lose any job, or all of the database",
            "set fsync = on in postgresql.conf and reload",
        )
    if not server.has("full_page_writes"):
        return Finding.problem(
            "durability",
            "full_page_writes is off: a crash of the machine may leave half-written pages, and jobs damaged",
            "set full_page_writes = on in postgresql.conf and reload, unless the file system writes whole pages",
        )
    commit, standbys = server.settings["synchronous_commit"], bool(server.settings["synchronous_standby_names"])
    if commit == "off":
        return Finding.warning("durability", _loses_the_last(server), _turn_on("on"))
    if standbys and commit in _BEHIND:
        return Finding.warning("durability", f"synchronous_commit is {commit}: {_BEHIND[commit]}", _turn_on("on"))
    return Finding.ok("durability", f"synchronous_commit {commit}: {KEPT}{_elsewhere(standbys=standbys)}")


_BEHIND = {
    "local": "no commit waits for the synchronous standbys, and a failover may lose what was accepted just before",
    "remote_write": "a standby may not have on disk what was accepted: if it loses power too, that is lost",
}


def _loses_the_last(server: Server) -> str:
    delay = 3 * int(server.settings["wal_writer_delay"]) / _MILLISECONDS
    return (
        f"synchronous_commit is off: a crash of the server loses the jobs accepted in the last {delay:g} s or so,"
        " and what ended then may run again"
    )


def _turn_on(value: str) -> str:
    return f"`ALTER ROLE … SET synchronous_commit = {value}` for the user of the URL, or the same for all"


def _elsewhere(*, standbys: bool) -> str:
    return (
        ", and the loss of this machine" if standbys else "; with no synchronous standby, not the loss of its disk"
    )


def _encoding(server: Server) -> Finding:
    encoding = server.settings["server_encoding"]
    if encoding == "UTF8":
        return Finding.ok("encoding", "UTF8: any text can be stored")
    return Finding.warning(
        "encoding",
        f"the database has the encoding {encoding}: a job with other characters in its names or errors is refused",
        "make a database with ENCODING 'UTF8' for jobs",
    )


def _isolation(server: Server) -> Finding:
    level = server.settings["default_transaction_isolation"]
    if level in {"read committed", "read uncommitted"}:
        return Finding.ok("isolation", f"{level} by default")
    return Finding.warning(
        "isolation",
        f"{level} by default: enqueueing with a key inside such a transaction of your own is refused",
        "begin those with ISOLATION LEVEL READ COMMITTED; our own are so anyway",
    )


def _connections(server: Server) -> Finding:
    most = int(server.settings["max_connections"]) - int(server.settings["superuser_reserved_connections"])
    says = f"{server.connections} of {most} in use"
    if server.connections > most * _CROWDED:
        return Finding.warning(
            "connections",
            f"{says}: soon nobody gets one",
            "raise max_connections, run fewer processes, or put PgBouncer before it with ?pooler=transaction",
        )
    return Finding.ok("connections", says)


def _vacuum(server: Server) -> Finding:
    if server.has("autovacuum") and server.has("track_counts"):
        return Finding.ok("autovacuum", "on: the rows of jobs that went by are cleared away")
    which = "autovacuum" if not server.has("autovacuum") else "track_counts, which autovacuum needs,"
    return Finding.warning(
        "autovacuum",
        f"{which} is off: rows of jobs that went by are never cleared away, and everything becomes slower",
        "set autovacuum = on and track_counts = on in postgresql.conf and reload",
    )


def _transactions(server: Server) -> Iterator[Finding]:
    writing, looking = server.writing, server.looking
    if writing is not None and writing.seconds > LONG_WRITE:
        yield Finding.warning(
            "transactions",
            f"{writing.told} has written and is open for {writing.seconds} s: until it ends, claims pass again over"
            " what was claimed since, slower and slower",
            writing.remedy,
        )
    elif looking is not None and looking.seconds > LONG_SNAPSHOT:
        yield Finding.warning(
            "transactions",
            f"{looking.told} has looked at one moment for {looking.seconds} s: until it ends, no row of a job that"
            " went by since is cleared away",
            looking.remedy,
        )
    else:
        yield Finding.ok("transactions", "none that this user can see is open for long")
