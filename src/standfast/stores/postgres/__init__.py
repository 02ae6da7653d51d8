"""Jobs in PostgreSQL, for fleets and for those whose data lives there."""

from typing import TYPE_CHECKING, NoReturn

from standfast.errors import ConfigurationError
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.stores.backend import Backend
from standfast.stores.postgres.url import parse_address, public_name
from standfast.stores.url import moved_clock, require

if TYPE_CHECKING:
    from standfast.stores.doctor import Examination
    from standfast.stores.postgres.migrate import PostgresMigrator


# The door of the PostgreSQL store.


class PostgresKind:
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
        from standfast.stores.postgres.store import PostgresBackend  # noqa: PLC0415 - only who uses it loads it

        return PostgresBackend(
            settings.url, clock=moved_clock(clock), namespace=settings.namespace, timeout=settings.store_timeout
        )

    def refuse_missing(self, settings: Settings) -> None:
        """Refuse a database that holds no jobs."""
        from standfast.stores.postgres.migrate import refuse_missing_schema  # noqa: PLC0415 - only who uses it loads it

        refuse_missing_schema(settings.url, settings.namespace, settings.store_timeout)

    def examine(self, settings: Settings, clock: Clock, *, deep: bool) -> "Examination":
        """Look at the database."""
        from standfast.stores.postgres.doctor import examine_postgres  # noqa: PLC0415 - only who uses it loads it

        return examine_postgres(settings.url, settings.namespace, moved_clock(clock), deep=deep)

    def files_beside(self, url: str) -> None:
        """Return none: the server may be far away."""

    def migrator(self, settings: Settings) -> "PostgresMigrator":
        """Return what brings the schema to this release."""
        from standfast.stores.postgres.migrate import PostgresMigrator  # noqa: PLC0415 - only who uses it loads it

        return PostgresMigrator(settings.url, settings.namespace, settings.store_timeout)

    def copies(self, settings: Settings) -> NoReturn:  # noqa: ARG002 - the port's shape
        """Refuse: the server has tools for that."""
        raise ConfigurationError(
            "`standfast backup` and `standfast restore` are for SQLite files: back up a PostgreSQL database with"
            " pg_dump and pg_restore, or with continuous archiving"
        )


KIND = PostgresKind()
