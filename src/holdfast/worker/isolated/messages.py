"""What a worker and one of its cells say to each other: frames of MessagePack, each after its length.

What a cell says of an attempt names its claim: something that an earlier one has left behind may still talk.

furnish ─► ready (or failed) ─► run ─► begun ─► progressed, logged, where … ─► concluded ─► run … ─► leave
                                 └──► tell: it was cancelled, lost, timed out, or its worker stops
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from holdfast.core.job import Claim, ClaimRef, Ending, Progress
from holdfast.settings import Settings
from holdfast.watch.options import LogOptions
from holdfast.worker.control import StopReason
from holdfast.worker.messages import Failed

_HEAD = 4
"""Bytes that say how long a frame is."""


class Furnish(msgspec.Struct, frozen=True, tag=True):
    """The first word to a cell: which app to load, and for which worker.

    It runs in `folder`, that in which the worker was started, wherever a handler of the worker has gone since.
    """

    worker: str
    target: str
    app_dir: str
    settings: Settings
    folder: str
    logs: LogOptions = LogOptions()


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run this attempt. It may take `limit` bytes of memory; the cell sees to it unless it is `capped`.

    The bytes `left_over` by earlier attempts do not count.
    """

    claim: Claim
    started_at: datetime
    limit: int | None = None
    capped: bool = False
    left_over: int = 0


class Tell(msgspec.Struct, frozen=True, tag=True):
    """How the attempt stands. With `interrupt` a coroutine is cancelled; a window ends in `opens_in` seconds."""

    why: StopReason | None = None
    lost: bool = False
    taken: bool = False
    opens_in: float | None = None
    interrupt: bool = False


class Leave(msgspec.Struct, frozen=True, tag=True):
    """There is no more to do: tear down, and end."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The app is loaded, its lifespans are entered."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The attempt has reached the cell: from here on it is to blame for what becomes of that."""

    ref: ClaimRef


class Progressed(msgspec.Struct, frozen=True, tag=True):
    """How far the handler says to be."""

    ref: ClaimRef
    progress: Progress


class Logged(msgspec.Struct, frozen=True, tag=True):
    """Lines that the attempt has logged, secrets already removed."""

    ref: ClaimRef
    lines: list[str]


class Where(msgspec.Struct, frozen=True, tag=True):
    """Where the coroutine was when it was told of its timeout."""

    ref: ClaimRef
    stack: str


class Concluded(msgspec.Struct, frozen=True, tag=True):
    """The attempt is over, and this is how; None where its claim is lost.

    `fixed`: the store has it already. `peak` is the most memory that it took. `parent`: the cell has started
    processes, and some may live.
    """

    ref: ClaimRef
    ending: Ending | None
    fixed: bool = False
    out_of_memory: bool = False
    peak: int = 0
    parent: bool = False


ToCell = Furnish | Run | Tell | Leave
FromCell = Ready | Failed | Begun | Progressed | Logged | Where | Concluded

_encoder = msgspec.msgpack.Encoder()
_to_cell: msgspec.msgpack.Decoder[ToCell] = msgspec.msgpack.Decoder(ToCell)
_from_cell: msgspec.msgpack.Decoder[FromCell] = msgspec.msgpack.Decoder(FromCell)


def framed(message: ToCell | FromCell) -> bytes:
    """Return a message as it goes over the line."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEAD, "big") + body


class Frames:
    """Puts together again what comes over the line in pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    def to_cell(self, data: bytes) -> Iterator[ToCell]:
        """Yield what was said to a cell."""
        return map(_to_cell.decode, self._bodies(data))

    def from_cell(self, data: bytes) -> Iterator[FromCell]:
        """Yield what a cell has said."""
        return map(_from_cell.decode, self._bodies(data))

    def _bodies(self, data: bytes) -> Iterator[bytes]:
        received = self._received
        received += data
        while len(received) >= _HEAD and len(received) >= (end := _HEAD + int.from_bytes(received[:_HEAD], "big")):
            body = bytes(received[_HEAD:end])
            del received[:end]
            yield body
