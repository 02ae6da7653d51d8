"""The embedded store: one SQLite file for jobs, a small one beside it for beats, and a folder for the bell."""

from pathlib import Path
from typing import TYPE_CHECKING

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock, SystemClock
from standfast.model.configuration import Settings
from standfast.stores.backend import Backend

if TYPE_CHECKING:
    from standfast.stores.doctor import Examination
    from standfast.stores.sqlite.migrate import SqliteCopies, SqliteMigrator


# What a sqlite URL says. No error here repeats the URL.

EXAMPLE = "write e.g. sqlite:///jobs.db, or sqlite:////var/lib/app/jobs.db for an absolute path"

_SCHEME = "sqlite://"


def sqlite_path(url: str) -> str:
    """Return the path that a URL names: after three slashes, so that a fourth makes it absolute."""
    host, slash, path = url[len(_SCHEME) :].partition("/")
    if host or not slash:
        raise ConfigurationError(f"a sqlite URL has three slashes before its path; {EXAMPLE}")
    if not path or path.endswith("/"):
        raise ConfigurationError(f"the sqlite URL names no file; {EXAMPLE}")
    if path == ":memory:":
        raise ConfigurationError("sqlite in memory would lose every job; use memory:// in tests, or name a file")
    if "?" in path or "\0" in path:
        raise ConfigurationError(f"a sqlite URL takes no options and no '?' in its path; {EXAMPLE}")
    return path


# The door of the SQLite store.


class SqliteKind:
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
        from standfast.stores.sqlite.store import SqliteBackend  # noqa: PLC0415 - only who uses it loads it

        return SqliteBackend(sqlite_path(settings.url), clock=clock, namespace=settings.namespace)

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse a file that is not there, or holds no jobs."""
        from standfast.stores.sqlite.migrate import refuse_missing_tables  # noqa: PLC0415 - only who uses it loads it

        refuse_missing_tables(sqlite_path(settings.url), settings.namespace)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the file."""
        from standfast.stores.sqlite.doctor import examine_file  # noqa: PLC0415 - only who uses it loads it

        return examine_file(sqlite_path(settings.url), settings.namespace, clock, deep=deep)

    def files_beside(self, url: str) -> Path:
        """Return a folder beside the database."""
        return Path(f"{self.public_name(url)}-files")

    def migrator(self, settings: Settings) -> "SqliteMigrator":
        """Return what brings the files to this release."""
        from standfast.stores.sqlite.migrate import SqliteMigrator  # noqa: PLC0415 - only who uses it loads it

        return SqliteMigrator(sqlite_path(settings.url), settings.namespace)

    def copies(self, settings: Settings) -> "SqliteCopies":
        """Return what copies the file."""
        from standfast.stores.sqlite.migrate import SqliteCopies  # noqa: PLC0415 - only who uses it loads it

        return SqliteCopies(sqlite_path(settings.url), settings.namespace, SystemClock())


KIND = SqliteKind()
