"""The values that answers of operations are made of.

Texts and numbers as they may be asked for: bounded, and free of what stores cannot keep.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from standfast.admin.job_details import UNREADABLE, read_envelope, shown
from standfast.admin.operation import NotThereError, WrongRequestError
from standfast.durable.memo_view import MemoValue, MemoView
from standfast.model.clock import LATEST
from standfast.model.job import Progress
from standfast.model.phrases import Phrase
from standfast.model.validation import calendar_problems, read_span

Word = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
"""A name, an id, or a part of one."""

Text = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^[^\x00]*$")]
"""A sentence or two."""

_NUMBER_PATTERN = r"[0-9]{1,6}(\.[0-9]{1,3})?"
_SPAN_PATTERN = rf"({_NUMBER_PATTERN} ?(ms|s|min|m|h|d|w) ?)+"
_DAY_PATTERN = r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_DATE = rf"{_DAY_PATTERN}T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?(Z|[+-]0[0-9]:00)"

_MOMENT = rf"now|{_SPAN_PATTERN}|{_DATE}"

When = Annotated[
    str,
    msgspec.Meta(
        max_length=64, extra_json_schema={"pattern": f"^(|{_NUMBER_PATTERN}|{_MOMENT})$", "examples": ["2h"]}
    ),
]
"""A moment: a date with its zone, or a span such as 2h; `reading.moments` says in words what is wrong with one."""

End = Annotated[
    str,
    msgspec.Meta(max_length=64, extra_json_schema={"pattern": f"^({_MOMENT}|{_DAY_PATTERN})$", "examples": ["2h"]}),
]
"""Likewise, with the unit of a span, as 2 alone would be 2 seconds; or a date alone."""

QueueName = Annotated[
    str, msgspec.Meta(max_length=200, extra_json_schema={"pattern": "^[A-Za-z0-9_.-]{0,64}$", "maxLength": 64})
]
"""The name of a queue; what is wrong with one is said in words where it is used."""

NewId = Annotated[
    str,
    msgspec.Meta(
        max_length=200,
        extra_json_schema={"pattern": "^(|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})$"},
    ),
]
"""An id of the caller's own, a UUIDv7."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
"""So many on one page, at most."""

Arguments = dict[str, Any]
"""Arguments of a task, by name."""


class RequestStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of an operation."""


class AnswerStruct(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation answers, or a part of that."""


class NothingAsked(RequestStruct, frozen=True, kw_only=True):
    """Nothing needs to be said."""


class Named(RequestStruct, frozen=True, kw_only=True):
    """Which one, by its name."""

    name: Word


class QueueNamed(RequestStruct, frozen=True, kw_only=True):
    """Which queue, by its name."""

    name: QueueName


class WithId(RequestStruct, frozen=True, kw_only=True):
    """Which one, by its id."""

    id: Word


def the_one(meant: str, ids: Iterable[str], *, shortest: int = 6, begins: bool = False) -> str | None:
    """Return the id that is meant: it is that, ends so or, if asked, begins so; None where there is none.

    Raises NotThereError where it may be several.
    """
    ids, end = tuple(ids), meant.lower()
    found = (
        [meant]
        if meant in ids
        else []
        if len(end) < shortest
        else [each for each in ids if each.endswith(end) or (begins and each.startswith(end))]
    )
    if len(found) > 1:
        told = {"end": meant, "count": len(found), "ids": ", ".join(found)}
        raise NotThereError(Phrase("refusal.several_jobs", **told))
    return found[0] if found else None


# Values that users gave, as far as they may be seen.


class ValueSeen(AnswerStruct, frozen=True, kw_only=True):
    """A value, decoded. One that is `secret` or too long is not there; of a long one there is the `beginning`.

    `size` is that of its JSON, in bytes. `problem` says why it cannot be read.
    """

    value: Any = None
    size: int = 0
    secret: bool = False
    beginning: str | None = None
    problem: Phrase | None = None


class TextSeen(AnswerStruct, frozen=True, kw_only=True):
    """A text, its end where it is too long to be shown whole. `size` is that of the whole, in characters."""

    text: str
    size: int
    cut: bool = False


class ProgressSeen(AnswerStruct, frozen=True, kw_only=True):
    """How far a job is, as its handler says. `share` is from 0 to 1, where a total is known."""

    done: float
    total: float | None = None
    note: str | None = None
    share: float | None = None


class CursorSeen(AnswerStruct, frozen=True, kw_only=True):
    """How far a job got, by `ctx.cursor` or in a loop of `ctx.resume`."""

    name: str | None
    version: int
    done: int
    value: ValueSeen


class StepSeen(AnswerStruct, frozen=True, kw_only=True):
    """A step that is done, and its result."""

    name: str
    version: int
    value: ValueSeen


class WaitSeen(AnswerStruct, frozen=True, kw_only=True):
    """A wait that has begun; `how` it ended is null meanwhile."""

    name: str
    number: int
    until: datetime | None
    how: str | None
    value: ValueSeen


class SignalSeen(AnswerStruct, frozen=True, kw_only=True):
    """A signal that was sent, and whether a wait has taken it."""

    name: str
    sent_at: datetime | None
    taken: bool
    value: ValueSeen


class FileSeen(AnswerStruct, frozen=True, kw_only=True):
    """A file that a job has saved."""

    name: str
    size: int
    sha256: str
    saved_at: datetime
    place: str


class WrittenSeen(AnswerStruct, frozen=True, kw_only=True):
    """All that a job has written down and was sent; `unreadable` are memos that nobody here can read."""

    cursors: tuple[CursorSeen, ...] = ()
    steps: tuple[StepSeen, ...] = ()
    waits: tuple[WaitSeen, ...] = ()
    signals: tuple[SignalSeen, ...] = ()
    files: tuple[FileSeen, ...] = ()
    unreadable: tuple[str, ...] = ()


# Moments as people write them: a date with its zone, or a span before or after now.
#
# With `days` a date may stand alone: it is the first moment of its day in UTC.

_SPAN = re.compile(r"([0-9.]+ ?(ms|s|min|m|h|d|w) ?)+")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST = datetime(1970, 1, 2, tzinfo=UTC)


def is_bare_number(text: str) -> bool:
    """Tell whether a text is a number without a unit, which as a span means seconds."""
    return _NUMBER.fullmatch(text.strip()) is not None


def past(field: str, text: str | None, now: datetime, *, days: bool = False) -> datetime | None:
    """Return the moment that is meant, where a span is so long ago; None where nothing is said."""
    return _moment(field, text, now, -1, days=days) if text else None


def coming(field: str, text: str | None, now: datetime, *, days: bool = False) -> datetime | None:
    """Return the moment that is meant, where a span is from now on; None where nothing is said."""
    return _moment(field, text, now, 1, days=days) if text else None


def _moment(field: str, text: str, now: datetime, sign: int, *, days: bool) -> datetime:
    written = text.strip()
    if days and _DAY.fullmatch(written):
        written += "T00:00Z"
    if written == "now":
        return now
    try:
        moment = now + sign * read_span(written)
    except (OverflowError, ValueError):
        endless = _SPAN.fullmatch(written) is not None  # a span of more than a hundred years
        moment = (LATEST if sign > 0 else _FIRST) if endless else _date(field, written)
        for problem in calendar_problems(field, moment) if sign > 0 else ():
            raise WrongRequestError(problem) from None
    return min(max(moment, _FIRST), LATEST)


def _date(field: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongRequestError(Phrase("refusal.no_moment", field=field, text=repr(text))) from None
    raise WrongRequestError(
        Phrase("refusal.no_zone", field=field, text=repr(text), example=f"{moment:%Y-%m-%dT%H:%M}Z")
    )


# What users stored, as far as it may be seen: decoded, bounded, and without what is secret. Pure.

LONGEST_VALUE = 20_000
"""Bytes of JSON of one value that is shown whole."""

LONGEST_VALUES = 200_000
"""Bytes of JSON of all arguments that are shown whole."""

LONGEST_TEXT = 50_000
"""Characters that are shown of a traceback, a log or a piece of evidence."""

_BEGINNING = 2_000


def value_seen(encoded: bytes, longest: int = LONGEST_VALUE) -> ValueSeen:
    """Return a value that is stored as JSON."""
    size = len(encoded)
    if size > longest:
        return ValueSeen(size=size, beginning=encoded[: min(_BEGINNING, longest)].decode(errors="ignore"))
    try:
        return ValueSeen(value=msgspec.json.decode(encoded), size=size)
    except UNREADABLE as error:
        return ValueSeen(size=size, problem=Phrase("unreadable.value", error=str(error)))


def args_seen(payload: bytes) -> tuple[dict[str, ValueSeen], Phrase | None]:
    """Return the arguments in a payload, of secret ones only that they are there; or why it cannot be read."""
    try:
        envelope = read_envelope(payload)
    except UNREADABLE as error:
        return {}, Phrase("unreadable.payload", error=str(error))
    seen, room = {}, LONGEST_VALUES
    for name, value in envelope.args.items():
        seen[name] = value_seen(bytes(shown(value)), min(room, LONGEST_VALUE))
        room = max(0, room - seen[name].size)
    return seen | {name: ValueSeen(secret=True) for name in envelope.secret}, None


def text_seen(text: str | None) -> TextSeen | None:
    """Return a text, or its end: there it says what went wrong."""
    if text is None:
        return None
    return TextSeen(text=text[-LONGEST_TEXT:], size=len(text), cut=len(text) > LONGEST_TEXT)


def texts_seen(texts: Mapping[str, str]) -> dict[str, TextSeen]:
    """Return texts by name, each bounded."""
    return {name: seen for name, text in texts.items() if (seen := text_seen(text)) is not None}


def progress_seen(progress: Progress | None) -> ProgressSeen | None:
    """Return how far a job is."""
    if progress is None:
        return None
    share = min(max(progress.done / progress.total, 0.0), 1.0) if progress.total else None
    return ProgressSeen(done=progress.done, total=progress.total, note=progress.note, share=share)


def written_seen(written: MemoView) -> WrittenSeen:
    """Return what a job has written down."""
    return WrittenSeen(
        cursors=tuple(
            CursorSeen(name=each.name or None, version=each.version, done=each.done, value=_told(each.told))
            for each in written.cursors
        ),
        steps=tuple(
            StepSeen(name=each.name, version=each.version, value=_told(each.told)) for each in written.steps
        ),
        waits=tuple(
            WaitSeen(name=each.name, number=each.number, until=each.until, how=each.how, value=_told(each.told))
            for each in written.waits
        ),
        signals=tuple(
            SignalSeen(name=each.name, sent_at=each.sent_at, taken=each.taken, value=_told(each.told))
            for each in written.signals
        ),
        files=tuple(
            FileSeen(name=each.name, size=each.size, sha256=each.sha256, saved_at=each.saved_at, place=each.place)
            for each in written.files
        ),
        unreadable=tuple(written.unreadable),
    )


def _told(told: MemoValue) -> ValueSeen:
    """Return a value that was written down; what is not shown, because it is long or may be secret, by its size."""
    if told.value is None:
        return ValueSeen(size=told.size, secret=told.size > 0)
    return value_seen(bytes(told.value))
