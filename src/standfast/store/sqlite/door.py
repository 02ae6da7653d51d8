"""The door of the SQLite store."""

from pathlib import Path
from typing import TYPE_CHECKING

from standfast.clock import Clock, SystemClock
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.store.sqlite.address import sqlite_path

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from standfast.store.examination import Examination
    from standfast.store.sqlite.copies import SqliteCopies
    from standfast.store.sqlite.migrator import SqliteMigrator


class SqliteDoor:
    """For sqlite:///jobs.db and the like of it."""

    def check(self, url: str) -> None:
        """Refuse a URL that names no file."""
        sqlite_path(url)

    def public_name(self, url: str) -> str:
        """Return the whole path: others of that name are elsewhere."""
        return str(Path(sqlite_path(url)).absolute())

    def absolute(self, url: str) -> str:
        """Return the URL with an absolute path."""
        return f"sqlite:///{self.public_name(url)}"

    def open(self, settings: Settings, clock: Clock) -> Backend:
        """Return the store in that file."""
        from standfast.store.sqlite.backend import SqliteBackend  # noqa: PLC0415 - only who uses it loads it

        return SqliteBackend(sqlite_path(settings.url), clock=clock, namespace=settings.namespace)

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse a file that is not there, or holds no jobs."""
        from standfast.store.sqlite.existing import refuse_missing_tables  # noqa: PLC0415 - only who uses it loads it

        refuse_missing_tables(sqlite_path(settings.url), settings.namespace)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the file."""
        from standfast.store.sqlite.examine import examine_file  # noqa: PLC0415 - only who uses it loads it

        return examine_file(sqlite_path(settings.url), settings.namespace, clock, deep=deep)

    def files_beside(self, url: str) -> Path:
        """Return a folder beside the database."""
        return Path(f"{self.public_name(url)}-files")

    def migrator(self, settings: Settings) -> "SqliteMigrator":
        """Return what brings the files to this release."""
        from standfast.store.sqlite.migrator import SqliteMigrator  # noqa: PLC0415 - only who uses it loads it

        return SqliteMigrator(sqlite_path(settings.url), settings.namespace)

    def copies(self, settings: Settings) -> "SqliteCopies":
        """Return what copies the file."""
        from standfast.store.sqlite.copies import SqliteCopies  # noqa: PLC0415 - only who uses it loads it

        return SqliteCopies(sqlite_path(settings.url), settings.namespace, SystemClock())


DOOR = SqliteDoor()
