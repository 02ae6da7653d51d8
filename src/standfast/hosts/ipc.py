"""The line between a host and its beater: one JSON message per line, some with open files beside them."""

import asyncio
import logging
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from standfast.model.display import one_line
from standfast.observe.logs.levels import LogOptions
from standfast.worker.options import ServedQueues

MOST_FILES = 16  # open files that one read may bring
CHUNK = 65_536


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The host's first word: who it is, and what its worker and the children beside it are to be."""

    host: int
    target: str
    app_dir: str
    url: str
    concurrency: int | None = None
    queues: ServedQueues | None = None
    lease: float | None = None
    grace: float | None = None
    logs: LogOptions = LogOptions()
    metrics_dir: str | None = None


class Adopt(msgspec.Struct, frozen=True, tag=True):
    """Begin the life of this worker on the line that comes with it; the second file keeps its folder."""

    worker: str


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The host has heard of this worker, and begins."""

    worker: str


class Left(msgspec.Struct, frozen=True, tag=True):
    """The life of this worker is over: none of its code runs any more. `error` is what it failed of, if it did."""

    worker: str
    error: str = ""


class AskStacks(msgspec.Struct, frozen=True, tag=True):
    """Tell where your threads are."""


class Stacks(msgspec.Struct, frozen=True, tag=True):
    """Where the threads of the host are."""

    text: str


class StopAll(msgspec.Struct, frozen=True, tag=True):
    """The host stops: replace nobody, and end when nothing is left to be given back."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The beater is well."""


class Said(msgspec.Struct, frozen=True, tag=True):
    """A record of the beater's log, to be written by the host."""

    logger: str
    level: int
    text: str


class GaveUp(msgspec.Struct, frozen=True, tag=True):
    """The beater ends, as nothing can work; `wrong`: not before something is put right."""

    reason: str
    wrong: bool


FromHost = Begin | Taken | Left | Stacks | StopAll
FromBeater = Adopt | AskStacks | Alive | Said | GaveUp

_encoder = msgspec.json.Encoder()
_from_host: msgspec.json.Decoder[FromHost] = msgspec.json.Decoder(FromHost)
_from_beater: msgspec.json.Decoder[FromBeater] = msgspec.json.Decoder(FromBeater)


def encode(message: FromHost | FromBeater) -> bytes:
    """Return a message as one line."""
    return _encoder.encode(message) + b"\n"


class Lines:
    """Makes lines of what comes in, in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        yield from lines


class HostEnd:
    """The host's end of the line: read in one thread, written from any."""

    def __init__(self, end: socket.socket, silence: float) -> None:
        self._socket = end
        self._lines = Lines()
        self._waiting: deque[FromBeater] = deque()
        self._files: deque[int] = deque()
        self._saying = threading.Lock()
        end.settimeout(silence)

    def say(self, message: FromHost) -> None:
        """Say something; does nothing when the beater is gone."""
        with suppress(OSError), self._saying:
            self._socket.sendall(encode(message))

    def hear(self) -> FromBeater | None:
        """Return the next word; None once the beater is gone. Raises TimeoutError where it is silent for long."""
        while not self._waiting:
            try:
                data, files, _, _ = socket.recv_fds(self._socket, CHUNK, MOST_FILES)
            except TimeoutError:
                raise
            except OSError:
                return None
            if not data:
                return None
            for file in files:  # as any that Python opens: no program that is run here is to keep them
                os.set_inheritable(file, False)
            self._files.extend(files)
            self._waiting.extend(_from_beater.decode(line) for line in self._lines.take(data))
        return self._waiting.popleft()

    def files(self, count: int) -> Sequence[int]:
        """Return the open files that came with the last word."""
        return [self._files.popleft() for _ in range(count)]

    def close(self) -> None:
        """Let go of the line."""
        self._socket.close()


MOST_WAITING = 1_000  # words that wait for a host which does not listen; lines of the log are left out then


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
            self._heard.extend(map(_from_host.decode, self._lines.take(data)))
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


LONGEST = 8_000  # characters kept of a record
_format = logging.Formatter()


class Relay(logging.Handler):
    """Hands records on; what cannot be handed on, as the host is gone, goes to standard error."""

    def __init__(self, say: Callable[[Said], bool]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on one record, with the end of its traceback if it has one."""
        try:
            text = _format.format(record)[-LONGEST:]
            if not self._say(Said(record.name, record.levelno, text)):
                sys.stderr.write(f"{record.levelname} {record.name}: {text}\n")
        except Exception:  # noqa: BLE001 - as the standard handlers: told on stderr, and harms nobody
            self.handleError(record)


def write(said: Said) -> None:
    """Write what the beater said as a record of the host's own log."""
    with suppress(Exception):  # a handler of the host's that fails is its own business
        logging.getLogger(said.logger).log(said.level, "%s", said.text)


def in_short(error: BaseException) -> str:
    """Return what an error says, on one line."""
    return one_line(str(error) or type(error).__name__)
