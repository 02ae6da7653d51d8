"""What users stored, as far as it may be seen: decoded, bounded, and without what is secret. Pure."""

from collections.abc import Mapping

import msgspec

from standfast.core.job import Progress
from standfast.dashboard.shapes.values import (
    CursorSeen,
    FileSeen,
    ProgressSeen,
    SignalSeen,
    StepSeen,
    TextSeen,
    ValueSeen,
    WaitSeen,
    WrittenSeen,
)
from standfast.durable.written import Told, Written
from standfast.phrases import Phrase
from standfast.watch.envelope import UNREADABLE, checked, read_envelope, shown

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
    try:
        checked(encoded)
    except UNREADABLE as error:
        return ValueSeen(size=size, problem=Phrase("unreadable.value", error=str(error)))
    if size > longest:
        return ValueSeen(size=size, beginning=encoded[:_BEGINNING].decode(errors="ignore"))
    return ValueSeen(value=msgspec.json.decode(encoded), size=size)


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


def written_seen(written: Written) -> WrittenSeen:
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


def _told(told: Told) -> ValueSeen:
    """Return a value that was written down; what is not shown, because it is long or may be secret, by its size."""
    if told.value is None:
        return ValueSeen(size=told.size, secret=told.size > 0)
    return value_seen(bytes(told.value))
