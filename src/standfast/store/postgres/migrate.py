"""Brings a schema to this release, in one transaction and under a lock: two that start at once do no harm.

The table schema_version says which migrations were applied, and which is the oldest release that can still work
with the result: so a fleet may be upgraded machine by machine, in either order.

Every migration after the first makes new tables, and touches none that is there. So it waits for nobody, nobody
waits behind it, and a release that does not know of it goes on.
"""

import logging
from dataclasses import dataclass

import psycopg

from standfast.errors import SchemaError
from standfast.store.postgres.address import Address
from standfast.store.postgres.remedies import make
from standfast.store.postgres.sql_files import load_migrations, load_statements
from standfast.store.postgres.wire import Wire, call

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
