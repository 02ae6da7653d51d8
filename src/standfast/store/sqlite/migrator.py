"""Brings the files of a SQLite store to this release when asked to, before anybody uses them."""

from contextlib import closing
from pathlib import Path

from standfast.store.migrator import Tables
from standfast.store.sqlite.connect import Files, open_to_look, prepare
from standfast.store.sqlite.forks import GATE
from standfast.store.sqlite.migrate import schema_version
from standfast.store.sqlite.sql_files import load_migrations, load_statements
from standfast.store.sqlite.translate import translated
from standfast.store.sqlite.walfiles import refuse_foreign_logs


class SqliteMigrator:
    """The two files of a store."""

    def __init__(self, path: str, namespace: str | None) -> None:
        self._files = Files.of(path)
        self._namespace = namespace

    def look(self) -> tuple[Tables, ...]:
        """Return the tables as they are, and change nothing."""
        refuse_foreign_logs(self._files)
        return self._look("jobs", self._files.jobs), self._look("beats", self._files.beats)

    def apply(self) -> None:
        """Apply what is missing to each file."""
        GATE.run(lambda: prepare(self._files, self._namespace))

    def _look(self, kind: str, file: Path) -> Tables:
        version = self._version(file) if file.is_file() else 0
        migrations = load_migrations(kind, self._namespace)
        known = len(migrations)
        sql = self._sql(version, migrations) if version < known else ""
        return Tables(str(file), version, known, sql, usable=version <= known)

    def _version(self, file: Path) -> int:
        return GATE.run(lambda: self._version_inside(file))

    def _version_inside(self, file: Path) -> int:
        with translated(file), closing(open_to_look(file)) as connection:
            return schema_version(connection, self._namespace)

    def _sql(self, version: int, migrations: tuple[tuple[str, ...], ...]) -> str:
        note = load_statements(self._namespace)["set_schema_version"].replace("?1", str(len(migrations)))
        statements = [statement for migration in migrations[version:] for statement in migration]
        return "\n\n".join(["BEGIN IMMEDIATE;", *statements, note, "COMMIT;"]) + "\n"
