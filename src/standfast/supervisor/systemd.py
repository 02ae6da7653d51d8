"""Tells whoever runs the supervisor how it is: systemd by its socket, others by the age of a file.

    NOTIFY_SOCKET    READY=1 with the first ready child, RELOADING=1, STOPPING=1, STATUS= in words
    WATCHDOG_USEC    WATCHDOG=1 twice in that time, as long as this loop turns
    an alive file    touched every few seconds while a child is ready, or ends what it runs as it is drained: for
                     `find FILE -mmin -1` and the like

Nothing here may fail the supervisor: what cannot be told is not told.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.model.display import counted

TELL_EVERY = 5.0  # seconds between two signs of life


class Notifier:
    """The signs of life of one supervisor, of which so many children are ready at the moment."""

    def __init__(
        self,
        environment: MutableMapping[str, str],
        ready_children: Callable[[], int],
        alive_file: Path | None = None,
        draining_children: Callable[[], int] = lambda: 0,
    ) -> None:
        # Taken out: what handlers start is not to speak in our name.
        self._address = environment.pop("NOTIFY_SOCKET", "")
        self._every = _watchdog_interval(environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", ""))
        self._ready_children = ready_children
        self._draining_children = draining_children
        self._alive_file = alive_file
        self._said_ready = False
        self._said = ""
        if alive_file is not None:
            _try_to_write(alive_file)

    async def run(self) -> None:
        """Give signs of life, again and again."""
        watchdog_at = time.monotonic()
        while True:
            ready = self._ready_children()
            self._tell_ready(ready)
            if self._alive_file is not None and (ready or self._draining_children()):
                _touch(self._alive_file)
            if self._every is not None and time.monotonic() >= watchdog_at:
                self._send("WATCHDOG=1")
                watchdog_at = time.monotonic() + self._every
            await asyncio.sleep(min(TELL_EVERY, self._every or TELL_EVERY) if self._said_ready else 0.1)

    def reloading(self) -> None:
        """Say that new code is being brought in; readiness is said again when it is."""
        self._said_ready, self._said = False, ""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}\nSTATUS=reloading")

    def stopping(self) -> None:
        """Say that it is about to end, and be alive no more."""
        self._send("STOPPING=1\nSTATUS=stopping: running jobs are given time to finish")
        if self._alive_file is not None:
            with contextlib.suppress(OSError):
                self._alive_file.unlink(missing_ok=True)

    def _tell_ready(self, ready: int) -> None:
        status = f"STATUS={counted(ready, 'worker')} ready"
        if ready and not self._said_ready:
            self._said_ready = True
            status = f"READY=1\n{status}"
        if status != self._said and (self._said_ready or not ready):
            self._said = status.removeprefix("READY=1\n")
            self._send(status)

    def _send(self, words: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            line.sendto(words.encode(), address)


def _watchdog_interval(microseconds: str, pid: str) -> float | None:
    """Return the seconds between two signs: half of what is allowed; None where nobody watches this process."""
    if not microseconds.isdecimal() or int(microseconds) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 2_000_000


def _touch(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _try_to_write(file: Path) -> None:
    """Raise ConfigurationError where the file cannot be: a probe would look for it in vain for ever."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.unlink()
    except OSError as error:
        raise ConfigurationError(f"--alive-file {file} cannot be written: {error.strerror}") from error
