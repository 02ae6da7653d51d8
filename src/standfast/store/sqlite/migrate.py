"""Brings the tables of a file to this release.

Two processes that start at once do no harm: one waits, then finds nothing left to do.
"""

import sqlite3
from pathlib import Path

from standfast.errors import SchemaError
from standfast.store.sqlite.sql_files import load_migrations, load_statements
from standfast.store.sqlite.steps import Executor


def migrate(connection: sqlite3.Connection, path: Path, kind: str, namespace: str | None) -> None:
    """Apply what is missing to a file of a kind (jobs, beats), all of it or nothing."""
    migrations = load_migrations(kind, namespace)
    if missing(connection, path, namespace, len(migrations)) == 0:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        lacking = missing(connection, path, namespace, len(migrations))
        for statements in migrations[len(migrations) - lacking :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(load_statements(namespace)["set_schema_version"], (len(migrations),))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def missing(connection: Executor, path: Path, namespace: str | None, known: int) -> int:
    """Return how many of the known migrations a file lacks. Raises SchemaError for one of a newer release."""
    version = schema_version(connection, namespace)
    if version > known:
        raise SchemaError(
            f"{path} was made by a newer Standfast (schema {version}, this release knows {known}): upgrade"
            " standfast, or name another file"
        )
    return known - version


def schema_version(connection: Executor, namespace: str | None) -> int:
    """Return the number of the last migration applied to a file, 0 if there was none."""
    sql = load_statements(namespace)
    [(exists,)] = connection.execute(sql["schema_table"]).fetchall()
    if not exists:
        return 0
    [(version,)] = connection.execute(sql["schema_version"]).fetchall()
    return int(version)
