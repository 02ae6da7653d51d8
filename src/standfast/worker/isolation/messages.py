"""What a worker and one of its cells say to each other: frames of MessagePack, each after its length.

What a cell says of an attempt names its claim: something that an earlier one has left behind may still talk.

furnish ─► ready (or failed) ─► run ─► begun ─► progressed, awaiting, logged, where … ─► concluded ─► run … ─► leave
                                 ├──► tell: it was cancelled, lost, timed out, or its worker stops
                                 └──► asked, wrote ◄─► recalled, noted: the notebook of the attempt
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from standfast.model.configuration import Settings
from standfast.model.job import Claim, ClaimRef, Ending, Progress
from standfast.model.memos import Memo
from standfast.observe.logs.levels import LogOptions
from standfast.worker.control import StopReason
from standfast.worker.messages import Failed

_HEAD = 4  # bytes that say how long a frame is


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

    The bytes `left_over` by earlier attempts do not count. At `boot`, on the clock that all processes of a machine
    share, it was `now` at the store. `trace` is what its span is carried by.
    """

    claim: Claim
    started_at: datetime
    limit: int | None = None
    capped: bool = False
    left_over: int = 0
    now: datetime | None = None
    boot: float = 0.0
    trace: Mapping[str, str] = {}


class Tell(msgspec.Struct, frozen=True, tag=True):
    """How the attempt stands. With `interrupt` a coroutine is cancelled; a window ends in `opens_in` seconds."""

    why: StopReason | None = None
    lost: bool = False
    taken: bool = False
    opens_in: float | None = None
    interrupt: bool = False


class Noted(msgspec.Struct, frozen=True, tag=True):
    """What was written with this ticket is in the store; or it is not, for this error."""

    ref: ClaimRef
    ticket: int
    kind: str = ""
    error: str | None = None


class Recalled(msgspec.Struct, frozen=True, tag=True):
    """The memos that were asked for with this ticket, or why there are none."""

    ref: ClaimRef
    ticket: int
    kind: str = ""
    error: str | None = None
    memos: tuple[Memo, ...] = ()


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


class Awaiting(msgspec.Struct, frozen=True, tag=True):
    """The handler waits for the results of these jobs."""

    ref: ClaimRef
    jobs: tuple[str, ...]


class Logged(msgspec.Struct, frozen=True, tag=True):
    """Lines that the attempt has logged, secrets already removed."""

    ref: ClaimRef
    lines: list[str]


class Asked(msgspec.Struct, frozen=True, tag=True):
    """The handler wants to know what was written down so far: `Recalled` is the answer."""

    ref: ClaimRef
    ticket: int


class Wrote(msgspec.Struct, frozen=True, tag=True):
    """Write this down: `Noted` is the answer."""

    ref: ClaimRef
    ticket: int
    memos: tuple[Memo, ...]
    hurry: bool = True


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


ToCell = Furnish | Run | Tell | Noted | Recalled | Leave
FromCell = Ready | Failed | Begun | Progressed | Awaiting | Logged | Asked | Wrote | Where | Concluded

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
