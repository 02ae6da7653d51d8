"""Somebody who came in, and what they may do."""

from enum import IntEnum
from types import MappingProxyType

import msgspec

LONGEST_NAME = 254
"""Characters of a name: an address of mail has no more."""


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


def what_is_wrong(user: User) -> str | None:
    """Return what of a user that others have made cannot be so, None where all is well.

    Nothing looks at types when one is made: an id in place of a name would fail where it is written down, after
    what was to be written down is done.
    """
    if type(user.name) is not str:
        return f"its name is of type {type(user.name).__qualname__}, and must be a str"
    if not user.name.strip() or not user.name.isprintable() or len(user.name) > LONGEST_NAME:
        return f"its name is empty, longer than {LONGEST_NAME} characters, or cannot be printed"
    if not isinstance(user.role, Role):
        return f"its role is of type {type(user.role).__qualname__}, and must be a Role"
    if not isinstance(user.grants, frozenset) or not all(type(grant) is str for grant in user.grants):
        return "its grants must be a frozenset of names of operations"
    return None
