"""How the tables of a store are brought to this release: what is there, what would be done, doing it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Tables:
    """One set of tables as it was found. `sql` is what would be run, "" if nothing is missing."""

    name: str
    version: int
    """How many migrations were applied; 0: the tables are not there."""
    known: int
    """How many migrations this release knows."""
    sql: str = ""
    usable: bool = True
    """Whether this release can work with them, where they are of a newer one."""

    @property
    def missing(self) -> int:
        """How many migrations are to be applied."""
        return max(self.known - self.version, 0)


class Migrator(Protocol):
    """Brings tables to this release."""

    def look(self) -> tuple[Tables, ...]:
        """Return the tables as they are, and change nothing."""
        ...

    def apply(self) -> None:
        """Apply what is missing, all of it or nothing. Raises SchemaError for tables of too new a release."""
        ...
