"""What the memos of a job say, for those who look at it: how far it is, what it has done, what it waits for.

Nothing here fails: of a memo that cannot be read, its name and size are told. Values are there only where they are
short, and where the caller may show them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from standfast.durable.files import StoredFile, files_among
from standfast.errors import PayloadError
from standfast.model.ids import made_at
from standfast.model.memos import Memo

LONGEST_VALUE = 2_000
"""Bytes of a value that is shown; of a longer one its size is told."""


class MemoValue(msgspec.Struct, frozen=True):
    """A value that was written down. `value` is JSON, None where it is not shown."""

    size: int
    value: msgspec.Raw | None


class CursorView(msgspec.Struct, frozen=True):
    """How far a job got: by `ctx.cursor`, whose name is empty, or in a loop of `ctx.resume`."""

    name: str
    version: int
    done: int
    told: MemoValue


class StepView(msgspec.Struct, frozen=True):
    """A step that is done, and its result."""

    name: str
    version: int
    told: MemoValue


class WaitView(msgspec.Struct, frozen=True):
    """A wait that has begun, the so manieth of its name, at a place in loops. `how` it ended is None meanwhile."""

    name: str
    number: int
    until: datetime | None
    how: str | None
    told: MemoValue
    place: str = ""


class SignalView(msgspec.Struct, frozen=True):
    """A signal that was sent, and whether a wait has taken it."""

    name: str
    sent_at: datetime | None
    taken: bool
    told: MemoValue


class MemoView(msgspec.Struct, frozen=True):
    """All that a job has written down and was sent; `unreadable` are memos that nobody here can read."""

    cursors: Sequence[CursorView] = ()
    steps: Sequence[StepView] = ()
    waits: Sequence[WaitView] = ()
    signals: Sequence[SignalView] = ()
    files: Sequence[StoredFile] = ()
    unreadable: Sequence[str] = ()


class _Body(msgspec.Struct, frozen=True):
    """What any of the memos may hold."""

    version: int = 1
    done: int = 0
    value: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")
    data: msgspec.Raw = msgspec.Raw(b"null")
    until: datetime | None = None
    how: str | None = None


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, PayloadError, ValueError)


def memo_view(memos: Iterable[Memo], *, values: bool) -> MemoView:
    """Return what the memos say; without `values`, of all that handlers and signals brought only the size."""
    reader = _Reader(values=values)
    for memo in memos:
        reader.add(memo)
    return MemoView(reader.cursors, reader.steps, reader.waits, reader.signals, reader.files, reader.unreadable)


class _Reader:
    def __init__(self, *, values: bool) -> None:
        self._values = values
        self.cursors: list[CursorView] = []
        self.steps: list[StepView] = []
        self.waits: list[WaitView] = []
        self.signals: list[SignalView] = []
        self.files: list[StoredFile] = []
        self.unreadable: list[str] = []

    def add(self, memo: Memo) -> None:
        """Take note of what a memo says."""
        kind, _, name = memo.name.partition(":")
        try:
            match kind:
                case "cursor":
                    body = _read(memo)
                    self.cursors.append(CursorView(name, body.version, body.done, self._told(body.value)))
                case "step":
                    body = _read(memo)
                    self.steps.append(StepView(name, body.version, self._told(body.result)))
                case "wait":
                    body, (of, number) = _read(memo), name.rsplit(":", 1)
                    place, _, number = number.rpartition("#")
                    told = self._told(body.data)
                    self.waits.append(WaitView(of, int(number), body.until, body.how, told, place))
                case "signal":
                    of, token = name.rsplit(":", 1)
                    self.signals.append(SignalView(of, made_at(token), not memo.body, self._told(memo.body)))
                case "file":
                    self.files.extend(files_among([memo]).values())
                case _:
                    self.unreadable.append(memo.name)
        except _UNREADABLE:
            self.unreadable.append(memo.name)

    def _told(self, value: msgspec.Raw | bytes) -> MemoValue:
        encoded = bytes(value)
        shown = self._values and 0 < len(encoded) <= LONGEST_VALUE
        if shown:
            msgspec.json.decode(encoded)  # a value that is no JSON is not shown as if it were
        return MemoValue(len(encoded), msgspec.Raw(encoded) if shown else None)


def _read(memo: Memo) -> _Body:
    return msgspec.json.decode(memo.body, type=_Body)
