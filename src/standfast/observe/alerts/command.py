"""Sends by starting a program: without a shell, the notice as JSON on its standard input, and not for long."""

import errno
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from standfast.errors import DeliveryError
from standfast.observe.alerts.channel import CommandChannel
from standfast.observe.alerts.message import Message

_KEPT = 2000  # bytes kept of what it says on its standard error: the end
_PORTION = 4096

_GLANCE = 0.05  # seconds between two looks whether it has ended: what it started may keep its standard error open


class Programs:
    """Those that somebody has started: whoever stops ends them first. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.killed = False

    def start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start one, in a group of its own. Raises OSError and ValueError."""
        with self._lock:
            if self.killed:
                raise InterruptedError(errno.EINTR, "its sender stops")
            process = subprocess.Popen(  # noqa: S603 - no shell, and the owner of the app chose the program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Forget one. Unless it has done its work, end it with all of its group that is left."""
        with self._lock:
            self._running.discard(process)
            if process.poll() != 0:
                _kill(process)

    def kill(self) -> None:
        """End all, and start no more."""
        with self._lock:
            self.killed = True
            for process in self._running:
                _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):  # the latter on macOS, where all of the group have ended
        os.killpg(process.pid, signal.SIGKILL)


def is_missing(channel: CommandChannel) -> bool:
    """Tell whether there is no such program here that can be started."""
    return shutil.which(channel.command[0]) is None


def send(channel: CommandChannel, message: Message, programs: Programs) -> None:
    """Send. Raises DeliveryError, whose words may have secrets in them."""
    try:
        process = programs.start(channel.command)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryError(f"its program cannot be started: {why}") from None
    with process:
        try:
            said = _converse(process, message.as_json() + b"\n", time.monotonic() + channel.timeout)
        except TimeoutError:
            raise DeliveryError(f"its program was not done within {channel.timeout:g} s, and was killed") from None
        finally:
            programs.end(process)
    if process.returncode and programs.killed:
        raise DeliveryError("its program was not done when its sender stopped, and was killed")
    if process.returncode:
        words = said.decode(errors="replace").strip()
        how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise DeliveryError(f"its program ended with {how}{f': {words}' if words else ''}")


def _converse(process: "subprocess.Popen[bytes]", told: bytes, ends_at: float) -> bytes:
    """Tell it all that it will hear, and return the end of what it says, when it has ended. Raises TimeoutError."""
    assert process.stdin is not None
    assert process.stderr is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        for stream, event in ((process.stdin, selectors.EVENT_WRITE), (process.stderr, selectors.EVENT_READ)):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event)
        while True:
            has_ended = process.poll() is not None
            ready = [key.fileobj for key, _ in selector.select(0 if has_ended else _GLANCE)]
            if process.stderr in ready:
                heard = process.stderr.read1(_KEPT)  # type: ignore[attr-defined]
                said = (said + heard)[-_KEPT:]
                if not heard:
                    selector.unregister(process.stderr)
            elif has_ended:
                return said
            if process.stdin in ready:
                told = _tell(process.stdin.fileno(), told)
                if not told:
                    selector.unregister(process.stdin)
                    process.stdin.close()
            if time.monotonic() >= ends_at:
                raise TimeoutError


def _tell(stream: int, told: bytes) -> bytes:
    """Write some of it; return the rest, and nothing where nobody reads."""
    try:
        return told[os.write(stream, told[:_PORTION]) :]
    except BlockingIOError:
        return told
    except BrokenPipeError:
        return b""
