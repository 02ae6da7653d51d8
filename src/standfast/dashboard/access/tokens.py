"""Tokens: long secrets for programs, and for people who have one. Whoever has it is whom it stands for."""

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

from standfast.dashboard.access.grants import unknown_grant
from standfast.dashboard.access.private_file import read_lines, read_private
from standfast.dashboard.access.user import Role, User, what_is_wrong
from standfast.errors import ConfigurationError
from standfast.health.guard import check_token

TOKEN_USER = User("token", Role.ADMIN)
"""Whom a token stands for that is given without a name."""


def read_tokens(path: Path) -> Mapping[str, User]:
    """Return the tokens in a file: one alone, or lines `name:role[,grant…]:token`. Raises ConfigurationError."""
    text, _ = read_private(path)
    words = text.split()
    if len(words) == 1 and ":" not in words[0]:
        return {check_token(words[0]): TOKEN_USER}
    found = {check_token(line.secret): line.user for line in read_lines(path, text)}
    if not found:
        raise ConfigurationError(f"{path} has no token: write one, or lines name:role:token")
    return found


class Tokens:
    """Knows tokens. Comparing takes as long for one that is nearly right as for one that is not."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        for user in tokens.values():
            if wrong := what_is_wrong(user):
                raise ConfigurationError(f"tokens stand for Users, and one of these is none: {wrong}")
            if wrong := unknown_grant(user.grants):
                raise ConfigurationError(f"the grants of {user.name}: {wrong}")
        self._users = tuple((_digest(check_token(token)), user) for token, user in tokens.items())

    def __bool__(self) -> bool:
        return bool(self._users)

    def find(self, given: str) -> tuple[User, str] | None:
        """Return whom a token stands for, and its digest."""
        digest = _digest(given)
        found = None
        for known, user in self._users:
            if hmac.compare_digest(known, digest):
                found = user, digest
        return found

    def all(self) -> tuple[tuple[str, User], ...]:
        """Return the digest of each token, and whom it stands for."""
        return self._users


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
