"""A proxy between a client and a real server, which does harm at a given place of their conversation.

It knows where messages end, and counts them in each direction. A `Fault` names a direction, a message and how much
of that is passed on before the harm is done.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

End = Callable[[bytes, bool], int]
"""Returns how many bytes the first message has, 0 where it is not complete; told whether it is a client's first."""


class Way(StrEnum):
    """In which direction a message goes."""

    REQUEST = "request"
    ANSWER = "answer"


class Harm(StrEnum):
    """What the proxy does."""

    CUT = "cut"
    """Hangs up, on both sides."""
    LATE = "late"
    """Passes nothing on in this direction until `Proxy.release`."""
    HOLE = "black hole"
    """Passes nothing on in any direction any more, and does not hang up."""
    SPLIT = "split"
    """Passes on byte by byte."""
    ACT = "act"
    """Calls the `act` of the fault, and passes on what follows."""


@dataclass(frozen=True)
class Fault:
    """Which harm is done where: at the message of that number, from 0 on, that goes this way."""

    harm: Harm
    way: Way
    message: int
    share: float = 0.0
    """How much of that message is passed on before."""
    act: Callable[[], object] = field(default=lambda: None, compare=False)


class Proxy:
    """Listens on a port of its own and passes on to a server. `heard` counts messages since it was armed."""

    def __init__(self, server: tuple[str, int] | str, end: End) -> None:
        self._server = server
        self._end = end
        self._fault: Fault | None = None
        self._changing = threading.Condition()
        self._acting = 0
        self._released = threading.Event()
        self._lines = set[_Line]()
        self.heard = dict.fromkeys(Way, 0)
        self.struck = False
        """Whether the harm was done since it was armed."""
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, fault: Fault | None) -> None:
        """Do this harm once, or none; count messages from here on. An act that has begun is over first."""
        with self._changing:
            self._changing.wait_for(lambda: self._acting == 0)
            self._released.set()
            self._released = threading.Event()
            self._fault, self.struck = fault, False
            self.heard = dict.fromkeys(Way, 0)

    def release(self) -> None:
        """Pass on what was held back."""
        self._released.set()

    def cut_all(self) -> None:
        """Hang up on every line."""
        for line in list(self._lines):
            line.close()

    def close(self) -> None:
        """Let go of everything."""
        self.release()
        self._door.close()
        self.cut_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                self._lines.add(_Line(self, client))

    def _connect(self) -> socket.socket:
        if isinstance(self._server, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            return server
        return socket.create_connection(self._server)

    def _next(self, way: Way) -> tuple[Fault | None, threading.Event]:
        """Count a message; return the fault that is due at it."""
        with self._changing:
            number = self.heard[way]
            self.heard[way] += 1
            fault = self._fault
            if fault is None or self.struck or (fault.way, fault.message) != (way, number):
                return None, self._released
            self.struck = True
            self._acting += fault.harm is Harm.ACT
            return fault, self._released

    def _done(self, fault: Fault) -> None:
        with self._changing:
            self._acting -= fault.harm is Harm.ACT
            self._changing.notify_all()


class _Line:
    """One client and its connection to the server: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = self._server = client
        self._is_hole = self._is_closed = False
        try:
            self._server = proxy._connect()
        except OSError:
            client.close()
            return
        for each in (client, self._server):
            with contextlib.suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = ((Way.REQUEST, client, self._server), (Way.ANSWER, self._server, client))
        self._pumps = len(ways)
        for way, source, sink in ways:
            threading.Thread(target=self._pump, args=(way, source, sink), daemon=True).start()

    def close(self) -> None:
        """Hang up. The descriptors stay until both threads are done: a number may be another's at once.

        What was on its way is dropped, and not counted.
        """
        self._is_closed = True
        for each in (self._client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._proxy._lines.discard(self)

    def _pump(self, way: Way, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._carry(way, source, sink)
        if not self._is_hole:
            self.close()
        with self._proxy._changing:
            self._pumps -= 1
            if self._pumps == 0:
                self._client.close()
                self._server.close()

    def _carry(self, way: Way, source: socket.socket, sink: socket.socket) -> None:
        for message in self._messages(way, source):
            if self._is_closed:
                return
            fault, released = self._proxy._next(way)
            if fault is None:
                self._pass_on(sink, message)
                continue
            share = round(len(message) * fault.share)
            try:
                self._pass_on(sink, message[:share])
                if self._harm(fault, released):
                    return
            finally:
                self._proxy._done(fault)
            pieces = 1 if fault.harm is Harm.SPLIT else len(message)
            for place in range(share, len(message), pieces):
                self._pass_on(sink, message[place : place + pieces])

    def _pass_on(self, sink: socket.socket, data: bytes) -> None:
        if data and not self._is_hole:
            sink.sendall(data)

    def _harm(self, fault: Fault, released: threading.Event) -> bool:
        """Do the harm; tell whether nothing goes this way any more."""
        match fault.harm:
            case Harm.CUT:
                self.close()
            case Harm.HOLE:
                self._is_hole = True
            case Harm.LATE:
                released.wait(60)
            case Harm.ACT:
                fault.act()
            case Harm.SPLIT:
                pass
        return fault.harm is Harm.CUT

    def _messages(self, way: Way, source: socket.socket) -> Iterator[bytes]:
        data, is_first = b"", way is Way.REQUEST
        while more := source.recv(1 << 16):
            data += more
            while length := self._proxy._end(data, is_first):
                yield data[:length]
                data, is_first = data[length:], False
        if data:
            yield data


def end_in_postgres(data: bytes, is_first: bool) -> int:
    """Return how long the first message is: a client's first has no type."""
    head = 0 if is_first else 1
    if len(data) < head + 4:
        return 0
    length = head + int.from_bytes(data[head : head + 4], "big")
    return length if len(data) >= length else 0


def end_in_redis(data: bytes, _is_first: bool) -> int:
    """Return how long the first command or reply is, all of its parts included."""
    return _end_of_value(data, 0)


def _end_of_value(data: bytes, start: int) -> int:
    """Return where the value that begins here ends, 0 where it is not complete."""
    line = data.find(b"\r\n", start)
    if line < 0:
        return 0
    kind, end = data[start : start + 1], line + 2
    if kind in b"+-:":
        return end
    number = int(data[start + 1 : line])
    if kind == b"$":
        end += max(number + 2, 0) if number >= 0 else 0
        return end if len(data) >= end else 0
    for _ in range(number):
        if not (end := _end_of_value(data, end)):
            return 0
    return end
