"""Passwords hashed with argon2, the user file, and the register that finds a user by what they sign in with."""

import asyncio
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

from standfast.admin.operation import Role, User
from standfast.dashboard.access.caller import Code, Refusal, RefusedError, later
from standfast.dashboard.access.credentials import (
    Line,
    Stamp,
    Tokens,
    read_lines,
    read_private,
    read_user,
    stamp_of,
)
from standfast.dashboard.access.sessions import How, Session, Signer
from standfast.errors import ConfigurationError

AT_ONCE = 2
MOST_WAITING = 16
"""More than these do not wait for their turn, but are told to come later."""

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1024


def is_hash(text: str) -> bool:
    """Tell whether this is a hash that passwords can be compared with."""
    try:
        return extract_parameters(text).hash_len > 0
    except InvalidHashError:
        return False


class Passwords:
    """Compares passwords with hashes. Belongs to one event loop."""

    def __init__(self, make_hasher: Callable[[], PasswordHasher] = PasswordHasher) -> None:
        self._make_hasher = make_hasher
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="standfast-passwords")
        self._waiting = 0

    @cached_property
    def _hasher(self) -> PasswordHasher:
        return self._make_hasher()

    @cached_property
    def _nobodys(self) -> str:
        """The hash with which the passwords of those are compared whom nobody knows: it takes as long."""
        return self._hasher.hash(secrets.token_urlsafe())

    async def compare(self, password: str, known: str | None) -> bool:
        """Tell whether a password has this hash. None takes as long and is never right.

        Raises RefusedError while too many wait.
        """
        if self._waiting >= AT_ONCE + MOST_WAITING:
            raise RefusedError(later(5))
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._compare, password, known)
        finally:
            self._waiting -= 1

    def _compare(self, password: str, known: str | None) -> bool:
        nobodys = self._nobodys
        try:
            is_right = self._hasher.verify(known or nobodys, password)
        except (Argon2Error, InvalidHashError, UnicodeError):
            return False
        return is_right and known is not None

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


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
    hasher: PasswordHasher | None = None,
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


_log = logging.getLogger(__name__)

NOT_SAID = Refusal(HTTPStatus.FORBIDDEN, Code.AUTH, "it could not be told who this is; the server's log says why")


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody, and a mark of what they are known by: it is another when their password or token is."""

    user: User
    mark: str


class IdentityRegister:
    """Finds who somebody is. Roles are as they are now, not as they were when somebody signed in."""

    def __init__(self, signer: Signer, tokens: Tokens, users: UserFile | None, link_user: User | None) -> None:
        self._signer = signer
        self._tokens = tokens
        self._users = users
        self._passwords = Passwords()
        self._link_user = link_user

    @property
    def ways(self) -> frozenset[How]:
        """By what people can sign in."""
        found = {How.LINK: self._link_user is not None, How.TOKEN: bool(self._tokens)}
        return frozenset(
            how for how, is_there in {**found, How.PASSWORD: self._users is not None}.items() if is_there
        )

    def by_link(self) -> Known | None:
        """Return who comes by a link."""
        return None if self._link_user is None else Known(self._link_user, "")

    def by_token(self, given: str) -> Known | None:
        """Return whom a token stands for."""
        found = self._tokens.find(given)
        return None if found is None else Known(found[0], self._signer.mark(found[1]))

    async def by_password(self, name: str, password: str) -> Known | None:
        """Return who has this name and password. It takes as long where nobody has the name."""
        line = self._line(name)
        if len(password) > LONGEST_PASSWORD:
            return None
        is_right = await self._passwords.compare(password, None if line is None else line.secret)
        return Known(line.user, self._signer.mark(line.secret)) if line is not None and is_right else None

    def by_session(self, session: Session) -> User | None:
        """Return whose session it is, if they are still known by what they came with."""
        known = self._of_session(session)
        return known.user if known is not None and known.mark == session.mark else None

    def _of_session(self, session: Session) -> Known | None:
        if session.how is How.LINK:
            return self.by_link()
        if session.how is How.PASSWORD:
            line = self._line(session.name)
            return None if line is None else Known(line.user, self._signer.mark(line.secret))
        marked = ((user, self._signer.mark(digest)) for digest, user in self._tokens.all())
        return next((Known(user, mark) for user, mark in marked if mark == session.mark), None)

    def _line(self, name: str) -> Line | None:
        try:
            return None if self._users is None else self._users.find(name)
        except ConfigurationError as error:
            _log.error("the user file cannot be used: %s", error)
            raise RefusedError(NOT_SAID) from error

    def close(self) -> None:
        """Let go of what hashes passwords."""
        self._passwords.close()
