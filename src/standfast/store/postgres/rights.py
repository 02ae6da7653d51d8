"""What the user of a URL may do in a database. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from standfast.store.examination import Finding
from standfast.store.postgres.address import Address
from standfast.store.postgres.remedies import let_in, make

_FEW = 3
"""So many names are told of a list."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether it may make schemas; and, where ours is there, use it, make tables in it, and use those there are."""

    make_schemas: bool
    use: bool | None = None
    make_tables: bool = False
    forbidden: Sequence[str] = ()

    @property
    def can_look(self) -> bool:
        """Whether the version of the schema can be read, if there is one."""
        return self.use is not False and "schema_version" not in self.forbidden

    def judged(self, address: Address) -> Finding:
        """Return what is to be said about it."""
        if self.use is None and not self.make_schemas:
            return Finding.problem(
                "permissions",
                f"there is no schema {address.schema}, and this user may not make one",
                make(address.schema),
            )
        if self.use is False or self.forbidden:
            which = ", ".join(self.forbidden[:_FEW])
            return Finding.problem(
                "permissions",
                f"this user may not use schema {address.schema}" + (f", of it {which}" if which else ""),
                let_in(address.schema),
            )
        if self.use and not self.make_tables:
            return Finding.ok(
                "permissions", f"this user may use schema {address.schema} and not change it: others migrate it"
            )
        return Finding.ok("permissions", f"this user may use, make and migrate schema {address.schema}")
