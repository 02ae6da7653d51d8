"""Brings the tables of a file to this release.

Two processes that start at once do no harm: one waits, then finds nothing left to do.
"""

import sqlite3
from pathlib import Path

from holdfast.errors import SchemaError
from holdfast.store.sqlite.sql_files import load_migrations, load_statements


def migrate(connection: sqlite3.Connection, path: Path, kind: str, namespace: str | None) -> None:
    """Apply what is missing to a file of a kind (jobs, beats), all of it or nothing."""
    migrations = load_migrations(kind, namespace)
    if _missing(connection, path, namespace, len(migrations)) == 0:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        missing = _missing(connection, path, namespace, len(migrations))
        for statements in migrations[len(migrations) - missing :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(load_statements(namespace)["set_schema_version"], (len(migrations),))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _missing(connection: sqlite3.Connection, path: Path, namespace: str | None, known: int) -> int:
    version = _version(connection, namespace)
    if version > known:
        raise SchemaError(
            f"{path} was made by a newer Holdfast (schema {version}, this release knows {known}): upgrade holdfast,"
            " or name another file"
        )
    return known - version


def _version(connection: sqlite3.Connection, namespace: str | None) -> int:
    sql = load_statements(namespace)
    [(exists,)] = connection.execute(sql["schema_table"])
    if not exists:
        return 0
    [(version,)] = connection.execute(sql["schema_version"])
    return int(version)
