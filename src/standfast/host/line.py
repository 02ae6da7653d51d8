"""The beater's end of its line to the host, in its event loop. It never waits for a host that stands still."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from standfast.host.messages import CHUNK, FromBeater, FromHost, Lines, Said, encode, from_host

MOST_WAITING = 1_000
"""Words that wait for a host which does not listen; lines of the log are left out then."""


class BeaterEnd:
    """Says things in order, with open files beside them, and hears what the host says."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._loop = asyncio.get_running_loop()
        self._lines = Lines()
        self._heard: deque[FromHost] = deque()
        self._to_say: deque[tuple[bytes, Sequence[int]]] = deque()
        self._writing = False
        self.gone = False

    def say(self, message: FromBeater, files: Sequence[int] = ()) -> None:
        """Say something, and let go of the files beside it; the host does not hear it when it is gone."""
        if self.gone or (len(self._to_say) >= MOST_WAITING and isinstance(message, Said)):
            _close(files)
            return
        self._to_say.append((encode(message), files))
        self._flush()

    async def hear(self) -> FromHost | None:
        """Return the next word of the host; None once it has hung up."""
        while not self._heard:
            try:
                data = await self._loop.sock_recv(self._socket, CHUNK)
            except OSError:
                data = b""
            if not data:
                self.gone = True
                return None
            self._heard.extend(map(from_host, self._lines.take(data)))
        return self._heard.popleft()

    def _flush(self) -> None:
        while self._to_say:
            line, files = self._to_say.popleft()
            try:
                said = socket.send_fds(self._socket, [line], files) if files else self._socket.send(line)
            except BlockingIOError:
                self._to_say.appendleft((line, files))
                break
            except OSError:
                self.gone, said = True, len(line)
            _close(files)
            if said < len(line):
                self._to_say.appendleft((line[said:], ()))
        self._watch(bool(self._to_say))

    def _watch(self, waits: bool) -> None:
        """Go on as soon as the host reads, if something waits."""
        if waits and not self._writing:
            self._loop.add_writer(self._socket, self._flush)
        elif not waits and self._writing:
            self._loop.remove_writer(self._socket)
        self._writing = waits

    def close(self) -> None:
        """Hang up."""
        self._watch(waits=False)
        with suppress(OSError):
            self._socket.close()


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
