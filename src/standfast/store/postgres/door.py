"""The door of the PostgreSQL store."""

from typing import TYPE_CHECKING, NoReturn

from standfast.clock import Clock
from standfast.errors import ConfigurationError
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.store.door import moved_clock, require
from standfast.store.postgres.address import parse_address, public_name

if TYPE_CHECKING:  # an app does not look at stores: it need not load the words for it
    from standfast.store.examination import Examination
    from standfast.store.postgres.migrator import PostgresMigrator


class PostgresDoor:
    """For postgresql://user:password@host:5432/database and the like of it."""

    def check(self, url: str) -> None:
        """Refuse a URL that names no server, and any without the driver."""
        parse_address(url)
        require("psycopg", "postgres")

    def public_name(self, url: str) -> str:
        """Return the server and the database."""
        return public_name(url)

    def absolute(self, url: str) -> str:
        """Return the URL: it reads the same from everywhere."""
        return url

    def open(self, settings: Settings, clock: Clock) -> Backend:
        """Return the store in that database."""
        from standfast.store.postgres.backend import PostgresBackend  # noqa: PLC0415 - only who uses it loads it

        return PostgresBackend(
            settings.url, clock=moved_clock(clock), namespace=settings.namespace, timeout=settings.store_timeout
        )

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse a database that holds no jobs."""
        from standfast.store.postgres.existing import refuse_missing_schema  # noqa: PLC0415 - only who uses it loads it

        refuse_missing_schema(settings.url, settings.namespace, settings.store_timeout)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the database."""
        from standfast.store.postgres.examine import examine_postgres  # noqa: PLC0415 - only who uses it loads it

        return examine_postgres(settings.url, settings.namespace, moved_clock(clock), deep=deep)

    def files_beside(self, url: str) -> None:
        """Return none: the server may be far away."""

    def migrator(self, settings: Settings) -> "PostgresMigrator":
        """Return what brings the schema to this release."""
        from standfast.store.postgres.migrator import PostgresMigrator  # noqa: PLC0415 - only who uses it loads it

        return PostgresMigrator(settings.url, settings.namespace, settings.store_timeout)

    def copies(self, settings: Settings) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Refuse: the server has tools for that."""
        raise ConfigurationError(
            "`standfast backup` and `standfast restore` are for SQLite files: back up a PostgreSQL database with"
            " pg_dump and pg_restore, or with continuous archiving"
        )


DOOR = PostgresDoor()
