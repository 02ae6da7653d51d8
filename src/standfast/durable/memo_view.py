"""What the memos of a job say, for those who look at it: how far it is, what it has done, what it waits for.

Nothing here fails: of a memo that cannot be read, its name and size are told. Values are there only where they are
short, and where the caller may show them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

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
    seen: dict[type, list[Any]] = defaultdict(list)
    unreadable: list[str] = []
    for memo in memos:
        try:
            view = _read(memo, values=values)
            seen[type(view)].append(view)
        except _UNREADABLE:
            unreadable.append(memo.name)
    kinds = (CursorView, StepView, WaitView, SignalView, StoredFile)
    cursors, steps, waits, signals, files = (seen[kind] for kind in kinds)
    return MemoView(cursors, steps, waits, signals, files, unreadable)


def _read(memo: Memo, *, values: bool) -> CursorView | StepView | WaitView | SignalView | StoredFile:
    def told(value: msgspec.Raw | bytes) -> MemoValue:
        encoded = bytes(value)
        shown = values and 0 < len(encoded) <= LONGEST_VALUE
        if shown:
            msgspec.json.decode(encoded)  # a value that is no JSON is not shown as if it were
        return MemoValue(len(encoded), msgspec.Raw(encoded) if shown else None)

    kind, _, name = memo.name.partition(":")
    if kind == "signal":
        of, token = name.rsplit(":", 1)
        return SignalView(of, made_at(token), not memo.body, told(memo.body))
    if kind == "file":
        return next(iter(files_among([memo]).values()))
    body = msgspec.json.decode(memo.body, type=_Body)
    match kind:
        case "cursor":
            return CursorView(name, body.version, body.done, told(body.value))
        case "step":
            return StepView(name, body.version, told(body.result))
        case "wait":
            of, number = name.rsplit(":", 1)
            place, _, number = number.rpartition("#")
            return WaitView(of, int(number), body.until, body.how, told(body.data), place)
    raise PayloadError(f"{memo.name} is no memo that this release knows")
