"""Looks at a PostgreSQL store for doctor: can it be used, does it keep jobs, what is in it. It writes nothing."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from standfast.clock import Clock
from standfast.core.record import Kind
from standfast.errors import StandfastError
from standfast.store.examination import (
    Census,
    DueQueue,
    Examination,
    Finding,
    Severity,
    UnknownTask,
    is_hopeless,
    sized,
)
from standfast.store.postgres.address import Address, parse_address
from standfast.store.postgres.connect import open_wire
from standfast.store.postgres.levels import MANY_LEVELS
from standfast.store.postgres.migrate import Schema, look_at
from standfast.store.postgres.rights import Rights
from standfast.store.postgres.sql_files import load_statements
from standfast.store.postgres.steps import run_steps
from standfast.store.postgres.store import PostgresStore
from standfast.store.postgres.surroundings import SETTINGS, OldTransaction, Server, judge_server
from standfast.store.postgres.translate import translated
from standfast.store.postgres.wire import Wire, call
from standfast.store.times import from_micros, from_micros_or_none, to_micros

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
