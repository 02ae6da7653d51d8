"""The bell: a poke through unix datagram sockets, with the database's own change counter as backup.

Each listener binds a socket in the folder `<file>-bell/`, named after the tone that it listens for; to ring is to
send one byte to each of that tone. A poke stays in the socket's buffer until the next wait. Where sockets cannot be
used, and for a poke that got lost, the listener looks at `PRAGMA data_version` twice a second, which reads one
number from shared memory. Every commit changes it. So who listens for work, and has a socket, then looks whether a
job has arrived: whatever else may make one due, whoever did it has rung.

Nobody rings after a commit of the user's own. But whoever takes part in it sends another byte before, and the
listeners look more often for a while.
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
from functools import partial
from pathlib import Path

from standfast.errors import StoreError
from standfast.stores.refusals import refuse_foreign
from standfast.stores.sqlite.connect import FORK_GUARD, Connection
from standfast.stores.verb import Tone

Renew = Callable[[Connection | None], Connection]
"""Returns a connection to read: the one given if it is of use still."""

LOOK_EVERY = 0.5
"""Seconds between two looks at the database's change counter."""

LOOK_SOON = 0.01
"""Seconds between two looks while a commit is expected."""

EXPECT_FOR = 2.0
"""Seconds for which a commit that was announced is expected."""

_RING = b"!"
_SOON = b"?"

_DEAD = {errno.ECONNREFUSED, errno.ENOENT}
_BUFFER = 4096
_PREFIXES = {tone: f"{tone.value}-" for tone in Tone}


class SqliteListener:
    """The ear of one who waits."""

    def __init__(self, ear: "_Ear | None", connection: Connection, renew: Renew, arrival: str | None) -> None:
        self._ear = ear
        self._connection = connection
        self._renew = renew
        self._arrival = arrival
        self._seen: tuple[Connection, int] | None = None
        self._arrived: tuple[Connection, int] | None = None
        self._seen = self._version()
        self._arrived = self._last_arrival()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout
        while not await self._poked(min(self._pace(loop.time()), give_up_at - loop.time())):
            if self._changed():
                return True
            if loop.time() >= give_up_at:
                return False
        # What was committed before this poke was heard is seen by the look that follows.
        self._changed()
        return True

    def close(self) -> None:
        """Stop listening."""
        try:
            if self._ear is not None:
                self._ear.close()
        finally:
            FORK_GUARD.run(self._connection.close)

    def _pace(self, now: float) -> float:
        return LOOK_SOON if self._ear is not None and now < self._ear.expects_until else LOOK_EVERY

    async def _poked(self, timeout: float) -> bool:
        if self._ear is None:
            await asyncio.sleep(max(timeout, 0))
            return False
        return await self._ear.hear(timeout)

    def _changed(self) -> bool:
        before, self._seen = self._seen, self._version()
        if self._seen == before or self._arrival is None:
            return self._seen != before
        last, self._arrived = self._arrived, self._last_arrival()
        return self._arrived != last

    def _last_arrival(self) -> tuple[Connection, int] | None:
        if self._arrival is None or FORK_GUARD.is_shut:
            return self._arrived
        with suppress(sqlite3.Error):
            return FORK_GUARD.run(partial(self._number, self._arrival))
        return None

    def _version(self) -> tuple[Connection, int] | None:
        if FORK_GUARD.is_shut:
            # A thread forks, and may have to wait for a slow call. The event loop does not: it looks again later.
            return self._seen
        # A database that cannot be read now has not rung; the next look at its jobs will say what is wrong with it.
        with suppress(sqlite3.Error, StoreError):
            return FORK_GUARD.run(self._renewed_version)
        return None

    def _renewed_version(self) -> tuple[Connection, int]:
        self._connection = self._renew(self._connection)
        return self._number("PRAGMA data_version")

    def _number(self, question: str) -> tuple[Connection, int]:
        """Return the answer with its connection: each connection has its own count."""
        [(number,)] = self._connection.execute(question)
        return self._connection, int(number)


class SqliteBell:
    """Wakes listeners on this machine."""

    def __init__(self, folder: Path, renew: Renew, arrival: str) -> None:
        self._folder = folder
        self._renew = renew
        self._arrival = arrival

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone, in this process and in others. Never raises."""
        self._try_to_poke(tone, _RING)

    def announce(self) -> None:
        """Tell idle workers that a commit may come soon, for which nobody will ring. Never raises."""
        self._try_to_poke(Tone.WORK, _SOON)

    def listen(self, tone: Tone = Tone.WORK) -> SqliteListener:
        """Start listening for this tone alone, inside a running event loop."""
        connection = FORK_GUARD.run(lambda: self._renew(None))
        try:
            ear = _Ear(self._folder, tone)
        except (OSError, NotImplementedError, AttributeError):
            # No unix sockets here, or no room for them, or a loop that cannot watch them: the counter must do.
            ear = None
        except BaseException:
            FORK_GUARD.run(connection.close)
            raise
        looks_closer = tone is Tone.WORK and ear is not None
        return SqliteListener(ear, connection, self._renew, self._arrival if looks_closer else None)

    def _try_to_poke(self, tone: Tone, word: bytes) -> None:
        try:
            self._poke(tone, word)
        except OSError as error:
            refuse_foreign(error)

    def _poke(self, tone: Tone, word: bytes) -> None:
        prefix = _PREFIXES[tone]
        names = [name for name in os.listdir(self._folder) if name.startswith(prefix)]  # noqa: PTH208 - the hot path
        if not names:
            return
        with _addresses(self._folder) as address, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for name in names:
                try:
                    sender.sendto(word, address(name))
                except OSError as error:
                    refuse_foreign(error)
                    # A full buffer has pokes enough; a socket without a process behind it is litter.
                    if error.errno in _DEAD:
                        self._clear_away(name)

    def _clear_away(self, name: str) -> None:
        with suppress(OSError):  # it may belong to another user, who has to do it
            (self._folder / name).unlink()


class _Ear:
    """A bound socket, and whether something came in; until when a commit is expected."""

    def __init__(self, folder: Path, tone: Tone) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / f"{_PREFIXES[tone]}{secrets.token_hex(4)}"
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._rung = asyncio.Event()
        self.expects_until = 0.0
        try:
            self._socket.setblocking(False)
            with _addresses(folder) as address:
                self._socket.bind(address(self._path.name))
            self._loop.add_reader(self._socket, self._rung.set)
        except BaseException:
            self.close()
            raise

    async def hear(self, timeout: float) -> bool:
        """Return True once the bell rang, False after `timeout` seconds, or earlier when a commit is announced."""
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
            while word := self._socket.recv(_BUFFER):
                if word == _SOON:
                    self.expects_until = self._loop.time() + EXPECT_FOR
                else:
                    came = True
        return came


@contextmanager
def _addresses(folder: Path) -> Iterator[Callable[[str], str]]:
    """Give addresses for names in a folder: on Linux by descriptor, as an address has room for 100 bytes only."""
    if sys.platform != "linux":
        yield lambda name: str(folder / name)
        return
    opened: list[int] = []
    try:
        # Opening and noting are one step of C: no signal handler runs in between, and no descriptor is forgotten.
        opened.extend(map(os.open, (folder,), (os.O_RDONLY | os.O_DIRECTORY,)))
        yield lambda name: f"/proc/self/fd/{opened[0]}/{name}"
    finally:
        for descriptor in opened:
            os.close(descriptor)
