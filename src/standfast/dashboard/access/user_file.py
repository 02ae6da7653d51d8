"""The user file: one line for each, `name:role[,grant…]:argon2-hash`. It is read again when it changes."""

import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from argon2 import PasswordHasher

from standfast.dashboard.access.passwords import LONGEST_PASSWORD, SHORTEST_PASSWORD, Hasher, is_hash
from standfast.dashboard.access.private_file import Line, Stamp, read_lines, read_private, read_user, stamp_of
from standfast.dashboard.access.user import Role, User
from standfast.errors import ConfigurationError


class UserFile:
    """Who may sign in with a password. What is wrong with the file is told at once, and then at each use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines, self._stamp = _read(path)

    def find(self, name: str) -> Line | None:
        """Return the line of somebody as the file has it now. Raises ConfigurationError."""
        if stamp_of(self._path) != self._stamp:
            self._lines, self._stamp = _read(self._path)
        return self._lines.get(name)


def _read(path: Path) -> tuple[Mapping[str, Line], Stamp]:
    text, stamp = read_private(path)
    lines: dict[str, Line] = {}
    for line in read_lines(path, text):
        if line.user.name in lines:
            raise ConfigurationError(f"{path}, line {line.number}: {line.user.name} stands there twice")
        if not is_hash(line.secret):
            raise ConfigurationError(
                f"{path}, line {line.number}: no argon2 hash; use `standfast dashboard --users … --add-user`"
            )
        lines[line.user.name] = line
    return lines, stamp


def check_password(password: str) -> str:
    """Return a password, if it may be one. Raises ConfigurationError."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise ConfigurationError(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} characters")
    return password


def check_name(name: str) -> None:
    """Raise ConfigurationError where nobody can be called so."""
    read_user(name, "viewer", "the new user")


def add_user(
    path: Path,
    name: str,
    role: Role,
    password: str,
    *,
    grants: Collection[str] = (),
    hasher: Hasher | None = None,
) -> User:
    """Write somebody into a user file, which is made if it is not there; who is in it already gets what is new.

    The other lines stay as they are, and whoever reads it meanwhile finds the old file or the new one. Raises
    ConfigurationError.
    """
    check_password(password)
    described = ",".join((role.name.lower(), *sorted(grants)))
    user = read_user(name, described, "the new user")
    text = read_private(path)[0] if path.exists() else ""
    kept = [line for line in text.splitlines() if line.partition(":")[0].strip() != name]
    line = f"{name}:{described}:{(hasher or PasswordHasher()).hash(password)}"
    _replace(path, "\n".join((*kept, line, "")))
    return user


def _replace(path: Path, text: str) -> None:
    """Write a file beside the old one, readable for its owner alone, and put it in its place."""
    try:
        handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(fresh).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(fresh).unlink()
            raise
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
