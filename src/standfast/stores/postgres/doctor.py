"""What `standfast doctor` finds out about a PostgreSQL store.

What the user of a URL may do in a database. Pure.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from standfast.errors import StandfastError
from standfast.model.clock import Clock
from standfast.model.records import Kind
from standfast.stores.doctor import (
    KEPT,
    Census,
    DueQueue,
    Examination,
    Finding,
    Severity,
    UnknownTask,
    is_hopeless,
    sized,
)
from standfast.stores.postgres.connect import OLDEST_SERVER, open_wire
from standfast.stores.postgres.migrate import Schema, look_at
from standfast.stores.postgres.rows import MANY_LEVELS
from standfast.stores.postgres.statements import load_statements, run_steps
from standfast.stores.postgres.store import PostgresStore
from standfast.stores.postgres.translate import let_in, make, translated
from standfast.stores.postgres.url import Address, parse_address
from standfast.stores.postgres.wire import Wire, call
from standfast.stores.rows import from_micros, from_micros_or_none, to_micros

_FEW = 3
"""So many names are told of a list."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether it may make schemas; and, where ours is there, use it, make tables in it, and use those there are."""

    make_schemas: bool
    use: bool | None = None
    make_tables: bool = False
    forbidden: Sequence[str] = ()

    @property
    def can_look(self) -> bool:
        """Whether the version of the schema can be read, if there is one."""
        return self.use is not False and "schema_version" not in self.forbidden

    def judged(self, address: Address) -> Finding:
        """Return what is to be said about it."""
        if self.use is None and not self.make_schemas:
            return Finding.problem(
                "permissions",
                f"there is no schema {address.schema}, and this user may not make one",
                make(address.schema),
            )
        if self.use is False or self.forbidden:
            which = ", ".join(self.forbidden[:_FEW])
            return Finding.problem(
                "permissions",
                f"this user may not use schema {address.schema}" + (f", of it {which}" if which else ""),
                let_in(address.schema),
            )
        if self.use and not self.make_tables:
            return Finding.ok(
                "permissions", f"this user may use schema {address.schema} and not change it: others migrate it"
            )
        return Finding.ok("permissions", f"this user may use, make and migrate schema {address.schema}")


# What a server's settings and its other users mean for jobs: kept or not, quick or slow. Pure.

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


# Looks at a PostgreSQL store for doctor: can it be used, does it keep jobs, what is in it. It writes nothing.

_PATIENCE = 10.0
"""Seconds that a look has."""
_DEEP_PATIENCE = 600.0
"""The same of a look at everything."""

_VITAL = frozenset({"store", "postgresql", "writes", "schema", "permissions"})
"""A problem with one of these keeps everybody out."""


def examine_postgres(url: str, namespace: str | None, clock: Clock | None, *, deep: bool) -> Examination:
    """Return what a look at the store in this database brings; a `deep` one looks for every job."""
    address = parse_address(url, namespace)
    patience = _DEEP_PATIENCE if deep else _PATIENCE
    findings: list[Finding] = []
    census = None
    try:
        with translated(address, patience), closing(_connect(address)) as wire:
            look = _Look(wire, address, time.monotonic() + patience)
            findings += look.at_server()
            if not is_hopeless(findings, _VITAL):
                findings += look.at_schema(parse_address(url).schema, deep=deep)
            if all(finding.severity is Severity.OK for finding in findings if finding.check in _VITAL):
                census = look.census(clock)
    except StandfastError as error:
        findings.append(_failure(error))
    return Examination.of(findings, _VITAL, census)


def _failure(error: StandfastError) -> Finding:
    says, _, remedy = str(error).rpartition(": ")
    return Finding.problem("store", says, remedy)


def _connect(address: Address) -> Wire:
    """Connect as workers and clients do, to see that it works; then as one who sets nothing, to see what is set."""
    open_wire(address, _PATIENCE, time.monotonic() + _PATIENCE).close()
    return open_wire(replace(address, pooled=True), _PATIENCE, time.monotonic() + _PATIENCE)


class _Look:
    """One look at a server and at one schema in it."""

    def __init__(self, wire: Wire, address: Address, until: float) -> None:
        self._wire = wire
        self._address = address
        self._until = until
        self._sql = load_statements(address.schema)

    def at_server(self) -> Iterator[Finding]:
        """Yield what there is to say about the server."""
        settings = dict(self._ask("server_settings", list(SETTINGS)))
        [(is_replica, process, connections)] = self._ask("server_state")
        old = {
            writes: OldTransaction(pid, name, seconds)
            for writes, pid, name, seconds in self._ask("oldest_transactions")
        }
        yield from judge_server(Server(settings, is_replica, connections, old.get(True), old.get(False)))
        yield _pooler(self._address, is_between=process != self._wire.process)

    def at_schema(self, family: str, *, deep: bool) -> Iterator[Finding]:
        """Yield what there is to say about the schema, one of those that begin with the name of its family."""
        names = [name for (name,) in self._ask("namespaces", family)]
        [(size,)] = self._ask("schema_size", self._address.schema)
        yield _contents(self._address, size, [name.removeprefix(family).removeprefix("_") for name in names])
        rights = self._rights()
        yield rights.judged(self._address)
        if rights.can_look:
            schema = look_at(self._wire, self._address.schema, self._until)
            yield judge_schema(schema)
            if not schema.lacks:
                yield _levels(*self._ask("level_count")[0])
            if not schema.lacks and deep:
                yield _integrity(*self._ask("misplaced")[0])

    def census(self, clock: Clock | None) -> Census:
        """Return who is there and what waits."""
        store = PostgresStore(self._address.schema, clock)
        workers = run_steps(self._wire, store.workers().steps, self._until)
        windows = run_steps(self._wire, store.records(Kind.WINDOW).steps, self._until)
        incidents = run_steps(self._wire, store.records(Kind.INCIDENT).steps, self._until)
        board = run_steps(self._wire, store.records(Kind.BOARD).steps, self._until)
        given = None if clock is None else to_micros(clock.now())
        rows = self._ask("due_queues", given)
        [(latest,)] = self._ask("latest_time")
        due = sorted(
            (
                DueQueue(name, from_micros_or_none(paused_at), count, from_micros(oldest))
                for _, name, paused_at, count, oldest in rows
                if name is not None
            ),
            key=lambda queue: queue.name,
        )
        unknown = tuple(UnknownTask(*row) for row in self._ask("put_aside"))
        [(dead,)] = self._ask("dead_count")
        now = from_micros(rows[0][0])
        return Census(
            now, workers, tuple(due), from_micros_or_none(latest), windows, unknown, dead, incidents, board
        )

    def _rights(self) -> Rights:
        [(may_create_schemas,)] = self._ask("database_rights")
        rows = self._ask("schema_rights", self._address.schema)
        return Rights(may_create_schemas, *rows[0]) if rows else Rights(may_create_schemas)

    def _ask(self, name: str, *params: Any) -> list[Any]:
        [result] = self._wire.ask([call(self._sql[name], params)], self._until)
        return self._wire.rows(result)


def _pooler(address: Address, *, is_between: bool) -> Finding:
    if is_between and not address.pooled:
        return Finding.warning(
            "pooler",
            "something stands between here and the server",
            "if it is a pooler that lends connections for a transaction each, add ?pooler=transaction to the URL",
        )
    if address.pooled and not is_between:
        says = "none is seen; without ?pooler=transaction in the URL, workers hear of new jobs sooner"
        return Finding.ok("pooler", says)
    return Finding.ok("pooler", "used by the transaction, as the URL says" if address.pooled else "none")


def _contents(address: Address, size: int, tenants: Sequence[str]) -> Finding:
    told = ", ".join(tenant or "(none)" for tenant in tenants)
    says = f"{address.name}, schema {address.schema}, {sized(size)}; namespaces there: {told or 'no tables yet'}"
    return Finding.ok("store", says)


def judge_schema(schema: Schema) -> Finding:
    """Return what is to be said about the release that a schema belongs to."""
    if not schema.version:
        return Finding.problem(
            "schema",
            f"schema {schema.name} holds no jobs of Standfast",
            "give the right store with --url and --namespace, or run `standfast migrate`, which makes the tables",
        )
    if schema.oldest > schema.known:
        return Finding.problem(
            "schema",
            f"version {schema.version} of a newer Standfast; this release knows {schema.known}",
            "upgrade standfast here, or name another schema",
        )
    if schema.version > schema.known:
        return Finding.warning(
            "schema",
            f"version {schema.version} of a newer Standfast, which works with this one too ({schema.known})",
            "upgrade standfast here when you can",
        )
    if schema.lacks:
        return Finding.warning(
            "schema",
            f"version {schema.version}; this release has {schema.known}",
            "run `standfast migrate`; else the first use by this release does it",
        )
    return Finding.ok("schema", f"version {schema.version}, as this release has it")


def _levels(count: int) -> Finding:
    if count > MANY_LEVELS:
        return Finding.warning(
            "levels",
            f"jobs of the last minutes are spread over {count} pairs of queue and priority, and each claim looks at"
            " all of them",
            "use fewer queues (a key, a tag or an argument tells customers apart as well), or let workers serve"
            " queues by name",
        )
    return Finding.ok("levels", f"{count} pairs of queue and priority to look at")


def _integrity(nowhere: int, twice: int, unknown: int) -> Finding:
    if nowhere or twice or unknown:
        return Finding.problem(
            "integrity",
            f"{nowhere} jobs are in no state, {twice} in several, and {unknown} states belong to no job",
            "somebody changed the tables by hand, or they are damaged: restore them from a backup",
        )
    return Finding.ok("integrity", "every job is in one state")
