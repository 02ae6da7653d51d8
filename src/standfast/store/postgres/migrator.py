"""Brings the schema of a PostgreSQL store to this release when asked to, before anybody uses it."""

import time
from contextlib import closing

from standfast.store.migrator import Tables
from standfast.store.postgres.address import parse_address
from standfast.store.postgres.connect import open_wire
from standfast.store.postgres.migrate import look_at, migrate
from standfast.store.postgres.translate import translated
from standfast.store.postgres.wire import Wire

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
