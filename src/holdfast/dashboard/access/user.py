"""Somebody who came in, and what they may do."""

from enum import IntEnum
from types import MappingProxyType

import msgspec


class Role(IntEnum):
    """What somebody may do; each may also do what those before it may."""

    VIEWER = 1
    """Look."""
    OPERATOR = 2
    """Retry, cancel, pause, trigger and the like: what can be done again, or undone."""
    ADMIN = 3
    """Also what takes something away for good, or concerns everybody: discard, edit, drain, release a lock."""


ROLES = MappingProxyType({role.name.lower(): role for role in Role})
"""Roles by the names that people write."""


class User(msgspec.Struct, frozen=True):
    """Somebody who came in. `grants` are names of operations that they may use besides those of their role."""

    name: str
    role: Role = Role.VIEWER
    grants: frozenset[str] = frozenset()

    def may(self, operation: str, role: Role) -> bool:
        """Tell whether they may use an operation that is for this role."""
        return self.role >= role or operation in self.grants
