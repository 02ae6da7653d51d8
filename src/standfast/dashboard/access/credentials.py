"""Files of users and tokens: lines `name:role[,grant…]:secret`, which nobody but their owner may read."""

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from standfast.admin.operation import ROLES, Role, User, what_is_wrong
from standfast.errors import ConfigurationError
from standfast.model.suggestions import hint
from standfast.observe.health.access import check_token


def unknown_grant(grants: Iterable[str]) -> str | None:
    """Return what is wrong with the first grant that names no operation, None where all do."""
    from standfast.admin.registry import BY_NAME  # noqa: PLC0415 - all of the dashboard, which few need here

    unknown = next((grant for grant in sorted(grants) if grant not in BY_NAME), None)
    worth_granting = [name for name, operation in BY_NAME.items() if operation.changes]
    return None if unknown is None else f"there is no operation {unknown!r}; {hint(unknown, worth_granting)}"


_LARGEST = 1 << 20
_NAME = re.compile(r"[\w.@+-]{1,64}")
_GRANT = re.compile(r"[a-z_]+\.[a-z_]+")
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """Somebody, and by what they are known."""

    user: User
    secret: str
    number: int


Stamp = tuple[int, int, int, int]
"""By which one sees that a file is another, or has changed."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file. Raises ConfigurationError where there is none, or others may read it."""
    try:
        return _checked(path, path.stat())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error


def read_private(path: Path) -> tuple[str, Stamp]:
    """Return what is in a file. Raises ConfigurationError where it cannot be read, or others may read it."""
    try:
        with path.open("rb") as file:
            stamp = _checked(path, os.fstat(file.fileno()))
            return file.read(_LARGEST).decode(), stamp
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no text in UTF-8") from error


def _checked(path: Path, found: os.stat_result) -> Stamp:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"{path} is no file")
    refuse_open(path, found)
    if found.st_size > _LARGEST:
        raise ConfigurationError(f"{path} is larger than {_LARGEST:,} bytes")
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def refuse_open(path: Path, found: os.stat_result) -> None:
    """Raise ConfigurationError where others than its owner, and those of its group, may read a file."""
    if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigurationError(f"others than its owner may read or change {path}: run `chmod 600 {path}`")


def read_lines(path: Path, text: str) -> Iterator[Line]:
    """Yield who stands in a file. Raises ConfigurationError, which names the line and never its secret."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield _read_line(f"{path}, line {number}", number, line.strip())


def _read_line(where: str, number: int, line: str) -> Line:
    fields = line.split(":", _FIELDS - 1)
    if len(fields) != _FIELDS:
        raise ConfigurationError(f"{where}: write name:role:… or name:role,grant:…")
    name, role, secret = fields
    return Line(read_user(name, role, where), secret, number)


def read_user(name: str, role_and_grants: str, where: str) -> User:
    """Return somebody with this name, their role and grants `operator,jobs.discard`. Raises ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{where}: a name has 1 to 64 letters, digits, or any of . _ @ + -")
    role, *grants = role_and_grants.split(",")
    if role not in ROLES:
        raise ConfigurationError(f"{where}: a role is one of {', '.join(ROLES)}")
    if not all(map(_GRANT.fullmatch, grants)):
        raise ConfigurationError(f"{where}: a grant is the name of an operation, e.g. jobs.discard")
    if wrong := unknown_grant(grants):
        raise ConfigurationError(f"{where}: {wrong}")
    return User(name, ROLES[role], frozenset(grants))


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
