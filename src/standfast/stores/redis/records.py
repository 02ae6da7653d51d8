"""Records and fires. A change, with all that comes of it, is one script: of many who make it at once, one does."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from standfast.model.records import FIRES_KEPT, Change, Fire, Kind, Record
from standfast.stores.redis.enqueue import in_columns
from standfast.stores.redis.rows import latest, pack, pairs, read_fire, read_record, write_fire, write_record
from standfast.stores.refusals import not_withdrawn
from standfast.stores.rows import from_micros, span_to_micros, to_micros, to_micros_or_none
from standfast.stores.values import DueRecords
from standfast.stores.verb import Access, Script, Steps, Verb, changing, check_changes, in_bites, verb

_AT_ONCE = 250
"""How much one script does if it need not do more: as many records, fires, jobs and cancellations as this."""

_STRETCH = 500
"""So many records one script looks at. To see more takes several, each of them one moment's view."""

_END = b"0"
"""Where the server's walk begins, and what it says at its end."""


class RecordVerbs:
    """Look at records and fires; change records."""

    @verb(Access.READ)
    def records(self, kind: Kind, names: Sequence[str] | None = None) -> Steps[tuple[Record, ...]]:
        rows = yield from _all(kind) if names is None else _named(kind, names)
        return tuple(read_record(kind, name, rows[name]) for name in sorted(rows))

    @verb(Access.READ)
    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Steps[DueRecords]:
        now, reply = yield Script("due_records", (kind.value, span_to_micros(ahead), limit))
        return DueRecords(from_micros(int(now)), tuple(read_record(kind, *row) for row in pairs(reply)))

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        """Make changes; tell for each whether it was made.

        Very many of them are made by several scripts, unless one of them may have to undo the others.
        """
        return changing(changes, partial(_change, changes))

    @verb(Access.READ)
    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Steps[tuple[Fire, ...]]:
        if limit < 1:
            return ()
        reply = yield Script("fires", (pack((schedule, to_micros_or_none(before))), limit))
        return latest([read_fire(*row) for row in pairs(reply)], limit)


def _all(kind: Kind) -> Steps[dict[bytes, bytes]]:
    found: dict[bytes, bytes] = {}
    place: bytes | None = _END
    while place is not None:
        after, reply = yield Script("records", (kind.value, place, _STRETCH))
        found.update(pairs(reply))
        place = None if after == _END else after
    return found


def _named(kind: Kind, names: Sequence[str]) -> Steps[dict[bytes, bytes]]:
    found: dict[bytes, bytes] = {}
    for first in range(0, len(names), _STRETCH):
        reply = yield Script("named_records", (kind.value, pack(names[first : first + _STRETCH])))
        found.update(pairs(reply))
    return found


def _change(changes: Sequence[Change]) -> Steps[tuple[bool, ...]]:
    check_changes(changes)
    made: list[bool] = []
    for bundle in _bundles(changes):
        written = [_written(change) for change in bundle]
        texts = [text for _, own in written for text in own]
        reply = yield Script("change", (FIRES_KEPT, pack([row for row, _ in written]), *texts))
        if isinstance(reply, bytes):
            raise not_withdrawn(reply.decode())
        made += map(bool, reply)
    return tuple(made)


def _bundles(changes: Sequence[Change]) -> Iterable[Sequence[Change]]:
    """Return changes, as many at a time as one script makes."""
    if any(change.withdraws for change in changes):
        return [changes]
    weights = [1 + len(change.fires) + len(change.jobs) + len(change.cancels) for change in changes]
    return in_bites(changes, weights, _AT_ONCE)


def _written(change: Change) -> tuple[Sequence[Any], Sequence[bytes]]:
    """Return a change as `change.lua` reads it, and the texts that go with it."""
    fires = [write_fire(fire) for fire in change.fires]
    columns, jobs = in_columns(change.jobs) if change.jobs else (None, b"")
    row = (
        change.kind.value,
        change.name,
        change.seen,
        change.token,
        change.body is None,
        to_micros_or_none(change.due_at),
        [_fire_row(fire, text) for fire, text in zip(change.fires, fires, strict=True)],
        change.withdraws,
        change.cancels,
        columns,
        change.after,
    )
    return row, (write_record(change), b"".join(fires), jobs)


def _fire_row(fire: Fire, text: bytes) -> tuple[str, int, str, int]:
    return (fire.schedule, to_micros(fire.planned), fire.cause.value, len(text))
