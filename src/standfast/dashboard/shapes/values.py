"""Values that users gave, as far as they may be seen."""

from datetime import datetime
from typing import Any

from standfast.dashboard.shapes.words import Told
from standfast.phrases import Phrase


class ValueSeen(Told, frozen=True, kw_only=True):
    """A value, decoded. One that is `secret` or too long is not there; of a long one there is the `beginning`.

    `size` is that of its JSON, in bytes. `problem` says why it cannot be read.
    """

    value: Any = None
    size: int = 0
    secret: bool = False
    beginning: str | None = None
    problem: Phrase | None = None


class TextSeen(Told, frozen=True, kw_only=True):
    """A text, its end where it is too long to be shown whole. `size` is that of the whole, in characters."""

    text: str
    size: int
    cut: bool = False


class ProgressSeen(Told, frozen=True, kw_only=True):
    """How far a job is, as its handler says. `share` is from 0 to 1, where a total is known."""

    done: float
    total: float | None = None
    note: str | None = None
    share: float | None = None


class CursorSeen(Told, frozen=True, kw_only=True):
    """How far a job got, by `ctx.cursor` or in a loop of `ctx.resume`."""

    name: str | None
    version: int
    done: int
    value: ValueSeen


class StepSeen(Told, frozen=True, kw_only=True):
    """A step that is done, and its result."""

    name: str
    version: int
    value: ValueSeen


class WaitSeen(Told, frozen=True, kw_only=True):
    """A wait that has begun; `how` it ended is null meanwhile."""

    name: str
    number: int
    until: datetime | None
    how: str | None
    value: ValueSeen


class SignalSeen(Told, frozen=True, kw_only=True):
    """A signal that was sent, and whether a wait has taken it."""

    name: str
    sent_at: datetime | None
    taken: bool
    value: ValueSeen


class FileSeen(Told, frozen=True, kw_only=True):
    """A file that a job has saved."""

    name: str
    size: int
    sha256: str
    saved_at: datetime
    place: str


class WrittenSeen(Told, frozen=True, kw_only=True):
    """All that a job has written down and was sent; `unreadable` are memos that nobody here can read."""

    cursors: tuple[CursorSeen, ...] = ()
    steps: tuple[StepSeen, ...] = ()
    waits: tuple[WaitSeen, ...] = ()
    signals: tuple[SignalSeen, ...] = ()
    files: tuple[FileSeen, ...] = ()
    unreadable: tuple[str, ...] = ()
