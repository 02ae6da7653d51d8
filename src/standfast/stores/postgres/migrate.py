"""Brings a schema to this release, in one transaction and under a lock: two that start at once do no harm.

The table schema_version says which migrations were applied, and which is the oldest release that can still work
with the result: so a fleet may be upgraded machine by machine, in either order.

Every migration after the first makes new tables, and touches none that is there. So it waits for nobody, nobody
waits behind it, and a release that does not know of it goes on.
"""

import logging
import time
from contextlib import closing
from dataclasses import dataclass

import psycopg

from standfast.errors import SchemaError, StoreUnavailableError
from standfast.stores.postgres.connect import open_wire
from standfast.stores.postgres.statements import load_migrations, load_statements
from standfast.stores.postgres.translate import make, translated
from standfast.stores.postgres.url import Address, parse_address
from standfast.stores.postgres.wire import Wire, call
from standfast.stores.url import Tables

OLDEST_ABLE = 1
"""The oldest release, by the number of migrations that it knows, that can work with the tables of this one."""

_log = logging.getLogger("standfast.store")


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was found: the migrations that it has, and those that this release knows."""

    name: str
    exists: bool
    version: int
    oldest: int
    known: int

    @property
    def lacks(self) -> int:
        """How many migrations are to be applied."""
        return max(self.known - self.version, 0)

    def check(self, place: str) -> None:
        """Raise SchemaError if it belongs to a release that is too new for this one."""
        if self.oldest > self.known:
            raise SchemaError(
                f"schema {self.name} in {place} was made by a newer Standfast (version {self.version}, which takes"
                f" a release that knows {self.oldest}; this one knows {self.known}): upgrade standfast, or name"
                " another schema"
            )
        if self.version > self.known:
            _log.warning(
                "schema %s in %s is of a newer Standfast (version %s, this release knows %s) and works with this"
                " one too: upgrade standfast when you can",
                self.name,
                place,
                self.version,
                self.known,
            )

    def script(self) -> str:
        """Return the SQL that is to be run, "" if nothing is."""
        if not self.lacks:
            return ""
        sql = load_statements(self.name)
        parts = [] if self.exists else [f'CREATE SCHEMA "{self.name}";']
        parts += [] if self.version else [sql["create_schema_version"]]
        parts += load_migrations(self.name)[self.version :]
        parts += [
            sql["clear_schema_version"],
            _filled(sql["set_schema_version"], str(self.known), str(OLDEST_ABLE)),
        ]
        return "\n\n".join(part.strip() for part in parts)

    def plan(self) -> str:
        """Return the script as another tool may run it: in a transaction, under the same lock."""
        script = self.script()
        if not script:
            return ""
        lock = _filled(load_statements(self.name)["migration_lock"], f"'{self.name}'")
        return f"BEGIN ISOLATION LEVEL READ COMMITTED;\n\n{lock}\n\n{script}\n\nCOMMIT;\n"


def look_at(wire: Wire, name: str, until: float) -> Schema:
    """Return the schema as it is."""
    sql = load_statements(name)
    [result] = wire.ask([call(sql["schema_parts"], (name,))], until)
    [(exists, versioned)] = wire.rows(result)
    version, oldest = 0, 0
    if versioned:
        [result] = wire.ask([call(sql["schema_version"])], until)
        [(version, oldest)] = wire.rows(result)
    return Schema(name, exists, version, oldest, len(load_migrations(name)))


def migrate(wire: Wire, address: Address, until: float, *, patient: bool = False) -> Schema:
    """Apply what is missing, all of it or nothing, and return the schema as it is then.

    `patient` sets aside the server's own limits on how long a statement may take.
    """
    name = address.schema
    found = look_at(wire, name, until)
    found.check(address.name)
    if not found.lacks:
        return found
    sql = load_statements(name)
    try:
        head = [call("BEGIN ISOLATION LEVEL READ COMMITTED")]
        if patient:
            head += [call(f"SET LOCAL {limit} = 0") for limit in ("statement_timeout", "lock_timeout")]
        wire.ask([*head, call(sql["migration_lock"], (name,))], until)
        found = look_at(wire, name, until)
        found.check(address.name)
        wire.run_script(found.script() or "SELECT", until)
        wire.ask([call("COMMIT")], until)
    except BaseException as error:
        wire.close()  # and the server rolls back
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise _forbidden(found, address) from error
        raise
    return look_at(wire, name, until)


def _forbidden(schema: Schema, address: Address) -> SchemaError:
    if schema.exists:
        return SchemaError(
            f"schema {schema.name} in {address.name} lacks {schema.lacks} of this release's migrations, and this"
            " user may not apply them: run `standfast migrate` as the owner of the schema"
        )
    return SchemaError(
        f"there is no schema {schema.name} in {address.name}, and this user may not make it: {make(schema.name)}"
    )


def _filled(sql: str, *values: str) -> str:
    """Return a statement as other tools take it, with values of our own in it."""
    for number, value in enumerate(values, 1):
        sql = sql.replace(f"${number}::", f"{value}::")
    return sql


# Looking must not make: a database without our tables is refused, where a worker or an app would make them.


def refuse_missing_schema(url: str, namespace: str | None, timeout: float) -> None:
    """Raise StoreUnavailableError unless the tables are there; whether they can be used is found out by opening."""
    address = parse_address(url, namespace)
    until = time.monotonic() + timeout
    with translated(address, timeout), closing(open_wire(address, timeout, until)) as wire:
        schema = look_at(wire, address.schema, until)
    if not schema.version:
        raise StoreUnavailableError(
            f"{address.name} holds no jobs of Standfast in schema {address.schema}; give the right store with --url"
            " and --namespace (it is made by `standfast migrate`, or when a job is first enqueued or a worker"
            " starts)"
        )


# Brings the schema of a PostgreSQL store to this release when asked to, before anybody uses it.

PATIENCE = 3600.0
"""Seconds that a migration may take when somebody asked for it."""


class PostgresMigrator:
    """The schema of a store."""

    def __init__(self, url: str, namespace: str | None, timeout: float) -> None:
        self._address = parse_address(url, namespace)
        self._timeout = timeout

    def look(self) -> tuple[Tables, ...]:
        """Return the tables as they are, and change nothing."""
        until = time.monotonic() + self._timeout
        with translated(self._address, self._timeout), closing(self._open(until)) as wire:
            found = look_at(wire, self._address.schema, until)
        name = f"schema {found.name} in {self._address.name}"
        return (Tables(name, found.version, found.known, found.plan(), usable=found.oldest <= found.known),)

    def apply(self) -> None:
        """Apply what is missing."""
        until = time.monotonic() + self._timeout
        with translated(self._address, self._timeout), closing(self._open(until)) as wire:
            migrate(wire, self._address, time.monotonic() + PATIENCE, patient=True)

    def _open(self, until: float) -> Wire:
        return open_wire(self._address, self._timeout, until)
