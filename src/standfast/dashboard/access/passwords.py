"""Passwords: hashed with argon2, off the event loop, and no more than two at a time: each takes 64 MiB."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Protocol

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

from standfast.dashboard.access.refusal import RefusedError, later

AT_ONCE = 2
MOST_WAITING = 16
"""More than these do not wait for their turn, but are told to come later."""

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1024


class Hasher(Protocol):
    """What hashes, and compares with a hash."""

    def hash(self, password: str) -> str:
        """Return the hash of a password, with salt and parameters."""
        ...

    def verify(self, hash: str, password: str) -> bool:  # noqa: A002 - the library calls it so
        """Return True, or raise that it is another."""
        ...


def is_hash(text: str) -> bool:
    """Tell whether this is a hash that passwords can be compared with."""
    try:
        return extract_parameters(text).hash_len > 0
    except InvalidHashError:
        return False


class Passwords:
    """Compares passwords with hashes. Belongs to one event loop."""

    def __init__(self, make_hasher: Callable[[], Hasher] = PasswordHasher) -> None:
        self._make_hasher = make_hasher
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="standfast-passwords")
        self._waiting = 0

    @cached_property
    def _hasher(self) -> Hasher:
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
