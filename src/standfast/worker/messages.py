"""What supervisor and child say to each other, over a channel that outlives neither of them."""

import asyncio
import os
import socket
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

import msgspec

from standfast.model.configuration import Settings
from standfast.model.incidents import InvolvedJob, Trouble
from standfast.observe.alerts.alert_rules import ALERTS_OFF, AlertSettings
from standfast.observe.logs.levels import LogOptions
from standfast.schedules.closed_hours import NO_RULES, ClosedHours, RecycleRules
from standfast.stores.values import Turn
from standfast.worker.options import ServedQueues


class Configure(msgspec.Struct, frozen=True, tag=True):
    """The supervisor's first word: which app to load, as which worker, with what set differently."""

    worker: str
    target: str
    app_dir: str
    notes: str
    dump: str
    log: str = ""
    kept: str = ""
    concurrency: int | None = None
    queues: ServedQueues | None = None
    lease: float | None = None
    grace: float | None = None
    group: int = 0
    logs: LogOptions = LogOptions()
    counts: str = ""  # where to count for metrics; nowhere if that is empty
    counts_dir: str = ""  # or in which folder, in a file of its own


class Told(msgspec.Struct, frozen=True):
    """What the answer to a beat tells besides: the store's time, answered at this boot time, and the worker's turn.

    `look`: something may have come back of which no bell tells.
    """

    now: datetime
    answered_at: float
    turn: Turn | None = None
    look: bool = False


class Renewed(msgspec.Struct, frozen=True, tag=True):
    """The beat sent at this boot time was accepted."""

    sent_at: float
    told: Told | None = None


class Revoke(msgspec.Struct, frozen=True, tag=True):
    """Cancellation was asked for these claims (job id, fence), and these queues are paused.

    Those `replaced` are to give way to another job, if they have not started.
    """

    claims: tuple[tuple[str, int], ...]
    paused: tuple[str, ...]
    replaced: tuple[tuple[str, int], ...] = ()


class Adopt(msgspec.Struct, frozen=True, tag=True):
    """These tasks (name, version) wait for a worker that knows them."""

    tasks: tuple[tuple[str, int], ...]


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Take nothing more; for `patience` seconds let what runs finish undisturbed, then end within `grace` seconds.

    Said again, it counts if it ends sooner.
    """

    grace: float
    patience: float = 0.0


class Buried(msgspec.Struct, frozen=True, tag=True):
    """The store has declared this worker dead: all its claims are gone for good."""


class Picture(msgspec.Struct, frozen=True, tag=True):
    """Tell where your coroutines are: `Pictured` is the answer."""


class Kill(msgspec.Struct, frozen=True, tag=True):
    """End the process in which this job runs, which is cancelled: `Killed` is the answer."""

    job_id: str
    fence: int


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The child's first word: its app is loaded; these are its settings, and the windows that it keeps to.

    `recycle` says when its like are to be replaced, `watching` what is watched and who is told.
    """

    settings: Settings
    tasks: int
    windows: tuple[ClosedHours, ...] = ()
    recycle: RecycleRules = NO_RULES
    watching: AlertSettings = ALERTS_OFF


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The child cannot start, for this reason; the traceback is for those who ask for it."""

    reason: str
    trace: str = ""


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """The child's event loop turns; for so many seconds the store has not answered it.

    `polled_at` is when, by the store's time, it last looked and left nothing within reach; with `beat_now` the
    others should hear of it at once. `ended` is how many attempts have ended in it so far, and `lag` how many
    seconds its loop was late for the last of its regular signs of life. `waiting` is how many of its jobs wait for
    the results of others, where it has no place left.
    """

    unanswered_for: float
    polled_at: datetime | None = None
    beat_now: bool = False
    ended: int = 0
    lag: float | None = None
    waiting: int = 0


class Stuck(msgspec.Struct, frozen=True, tag=True):
    """A handler ignores its timeout and cannot be stopped: this child must be replaced. `stack` is where it is."""

    job_id: str
    fence: int
    reason: str
    task: str = ""
    stack: str = ""


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """What the child is made of fails: it must be replaced, and none of its jobs is to blame."""

    reason: str


class Retired(msgspec.Struct, frozen=True, tag=True):
    """The child is done of its own accord and is about to exit; `worked`: it had something to do."""

    worked: bool = False


class Disowned(msgspec.Struct, frozen=True, tag=True):
    """The store does not know this worker any more, which leaves: these jobs it had, the running ones first."""

    jobs: tuple[InvolvedJob, ...] = ()


class Noticed(msgspec.Struct, frozen=True, tag=True):
    """Something went wrong in the child that ends no attempt of its own, or is more than the end of one.

    `fingerprint` is the same for the same trouble, which happened `count` times since it was last told of; `parts`
    are texts by name, secrets already removed.
    """

    trouble: Trouble
    summary: str
    fingerprint: str
    parts: dict[str, str] = {}
    jobs: tuple[InvolvedJob, ...] = ()
    count: int = 1


class Holds(msgspec.Struct, frozen=True, tag=True):
    """A handler holds a lock, for its `ttl` from this boot time on: keep it. `slot` of `file` says until when."""

    name: str
    holder: str
    ttl: float
    asked_at: float
    file: str
    slot: int


class LetsGo(msgspec.Struct, frozen=True, tag=True):
    """A lock is to be kept no longer: the child gives it back itself."""

    holder: str


class Pictured(msgspec.Struct, frozen=True, tag=True):
    """Where the coroutines of the child are."""

    tasks: str


class Killed(msgspec.Struct, frozen=True, tag=True):
    """It is killed, or was not running any more; or it cannot be, as it `shares` its process with others."""

    job_id: str
    fence: int
    shares: bool = False


ToChild = Configure | Renewed | Revoke | Adopt | Stop | Buried | Picture | Kill
ToParent = (
    Hello | Failed | Pulse | Stuck | Unfit | Retired | Disowned | Noticed | Pictured | Killed | Holds | LetsGo
)
Message = ToChild | ToParent


class Channel(Protocol):
    """One end of the line between supervisor and child."""

    def send(self, message: Message) -> None:
        """Say something; does nothing when the other side is gone."""
        ...

    async def receive(self) -> Message | None:
        """Return the next word of the other side, or None once it is gone."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

LINE_LIMIT = 16 * 1024 * 1024
LONGEST_TEXT = 64 * 1024  # characters that are left of each text in a message that is too long for a line


class SocketChannel:
    """One end of the line, inside a running event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "SocketChannel":
        """Return a channel over this end of a socket pair, which it then owns."""
        return cls(*await asyncio.open_connection(sock=end, limit=LINE_LIMIT))

    def send(self, message: Message) -> None:
        """Say something; does nothing when the other side is gone."""
        if not self._writer.is_closing():
            line = _encoder.encode(message)
            if len(line) >= LINE_LIMIT:
                line = _encoder.encode(_shortened(message))
            self._writer.write(line + b"\n")

    async def receive(self) -> Message | None:
        """Return the next word of the other side, or None once it is gone."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return _decoder.decode(line) if line.endswith(b"\n") else None

    @property
    def ended(self) -> bool:
        """Whether the other side has hung up, and all that it said was received."""
        return self._reader.at_eof()

    def hear_out(self) -> None:
        """Receive what was said so far and then None, whoever still keeps the other end open."""
        hear_out(self._writer.transport)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def hear_out(transport: asyncio.BaseTransport) -> None:
    """Let a transport hear what was said so far, and then the end, whoever still keeps the other side open.

    The socket that a transport shows can be shut in asyncio's own event loop, and not in uvloop.
    """
    shown = transport.get_extra_info("socket")
    if shown is not None and shown.fileno() >= 0:
        with socket.socket(fileno=os.dup(shown.fileno())) as same, suppress(OSError):  # it may have hung up
            same.shutdown(socket.SHUT_RD)


def _shortened(message: Message) -> Message:
    """Return a message with the beginnings of its long texts: a traceback may have anything in it."""
    short: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(message).items():
        if isinstance(value, str):
            short[name] = value[:LONGEST_TEXT]
        elif isinstance(value, dict):
            short[name] = {key: str(each)[:LONGEST_TEXT] for key, each in value.items()}
    return msgspec.structs.replace(message, **short)
