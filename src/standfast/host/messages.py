"""What a host and its beater say to each other: one JSON message per line, some with open files beside them."""

import os
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from standfast.watch.options import LogOptions
from standfast.worker.served import ServedQueues

MOST_FILES = 16
"""Open files that one read may bring."""

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


def from_host(line: bytes) -> FromHost:
    """Return what the host said."""
    return _from_host.decode(line)


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
