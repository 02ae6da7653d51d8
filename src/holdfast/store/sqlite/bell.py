"""The bell: a poke through unix datagram sockets, with the database's own change counter as backup.

Each listener binds a socket in the folder `<file>-bell/`; to ring is to send one byte to each of them. A poke stays
in the socket's buffer until the next wait. Where sockets cannot be used, and for a poke that got lost, the listener
looks at `PRAGMA data_version` twice a second, which reads one number from shared memory.
"""

import asyncio
import errno
import os
import secrets
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.store.sqlite.forks import GATE, Connection

Renew = Callable[[Connection | None], Connection]
"""Returns a connection to read: the one given if it is of use still."""

LOOK_EVERY = 0.5
"""Seconds between two looks at the database's change counter."""

_DEAD = {errno.ECONNREFUSED, errno.ENOENT}
_BUFFER = 4096


class SqliteListener:
    """One idle worker's ear."""

    def __init__(self, ear: "_Ear | None", connection: Connection, renew: Renew) -> None:
        self._ear = ear
        self._connection = connection
        self._renew = renew
        self._seen: tuple[Connection, int] | None = None
        self._seen = self._version()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout
        while not await self._poked(min(LOOK_EVERY, give_up_at - loop.time())):
            if self._changed():
                return True
            if loop.time() >= give_up_at:
                return False
        # What was committed before this poke was heard is seen by the claim that follows.
        self._changed()
        return True

    def close(self) -> None:
        """Stop listening."""
        if self._ear is not None:
            self._ear.close()
        with GATE:
            self._connection.close()

    async def _poked(self, timeout: float) -> bool:
        if self._ear is None:
            await asyncio.sleep(max(timeout, 0))
            return False
        return await self._ear.hear(timeout)

    def _changed(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _version(self) -> tuple[Connection, int] | None:
        if GATE.is_shut:
            # A thread forks, and may have to wait for a slow call. The event loop does not: it looks again later.
            return self._seen
        # A database that cannot be read now has not rung; the claims of its worker will say what is wrong with it.
        with suppress(sqlite3.Error, StoreError), GATE:
            self._connection = self._renew(self._connection)
            [(version,)] = self._connection.execute("PRAGMA data_version")
            # Each connection counts for itself: what a new one says cannot be compared, and may be news.
            return self._connection, int(version)
        return None


class SqliteBell:
    """Wakes every listener on this machine."""

    def __init__(self, folder: Path, renew: Renew) -> None:
        self._folder = folder
        self._renew = renew

    def ring(self) -> None:
        """Wake every listener, in this process and in others. Never raises."""
        with suppress(OSError):
            names = os.listdir(self._folder)  # noqa: PTH208 - the hot path
            if names:
                self._poke(names)

    def listen(self) -> SqliteListener:
        """Start listening, inside a running event loop."""
        with GATE:
            connection = self._renew(None)
        try:
            ear = _Ear(self._folder)
        except (OSError, NotImplementedError, AttributeError):
            # No unix sockets here, or no room for them, or a loop that cannot watch them: the counter must do.
            ear = None
        return SqliteListener(ear, connection, self._renew)

    def _poke(self, names: list[str]) -> None:
        with _addresses(self._folder) as address, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for name in names:
                try:
                    sender.sendto(b"!", address(name))
                except OSError as error:
                    # A full buffer has pokes enough; a socket without a process behind it is litter.
                    if error.errno in _DEAD:
                        self._clear_away(name)

    def _clear_away(self, name: str) -> None:
        with suppress(OSError):  # it may belong to another user, who has to do it
            (self._folder / name).unlink()


class _Ear:
    """A bound socket, and whether something came in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / secrets.token_hex(4)
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._rung = asyncio.Event()
        try:
            self._socket.setblocking(False)
            with _addresses(folder) as address:
                self._socket.bind(address(self._path.name))
            self._loop.add_reader(self._socket, self._rung.set)
        except BaseException:
            self.close()
            raise

    async def hear(self, timeout: float) -> bool:
        """Return True once something came in, False after `timeout` seconds."""
        if self._drain():
            return True
        self._rung.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):  # wait_for of Python 3.11 may swallow a cancellation
                await self._rung.wait()
        return self._drain()

    def close(self) -> None:
        """Unbind."""
        with suppress(NotImplementedError, ValueError, RuntimeError):
            self._loop.remove_reader(self._socket)
        self._socket.close()
        with suppress(OSError):
            self._path.unlink()

    def _drain(self) -> bool:
        came = False
        with suppress(OSError):
            while self._socket.recv(_BUFFER):
                came = True
        return came


@contextmanager
def _addresses(folder: Path) -> Iterator[Callable[[str], str]]:
    """Give addresses for names in a folder: on Linux by descriptor, as an address has room for 100 bytes only."""
    if sys.platform != "linux":
        yield lambda name: str(folder / name)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield lambda name: f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
