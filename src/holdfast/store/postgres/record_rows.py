"""Records and fires, from rows and to the columns in which statements take them."""

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.record import Cause, Change, Decision, Fire, Kind, Record
from holdfast.store.postgres.readable import readable
from holdfast.store.postgres.rows import Row
from holdfast.store.times import from_micros, from_micros_or_none, to_micros, to_micros_or_none

_FIRE_COLUMNS = 9


def to_record(row: Row) -> Record:
    """Return the record that a row tells of."""
    kind, name, version, due_at, body, token = row
    return Record(Kind(kind), name, version, from_micros_or_none(due_at), body, token)


def to_fire(row: Row) -> Fire:
    """Return the fire that `fires` and `fires_of` select."""
    schedule, planned, decision, cause, count, until, job_id, note, decided_at = row
    return Fire(
        schedule=schedule,
        planned=from_micros(planned),
        decision=Decision(decision),
        cause=Cause(cause),
        count=count,
        until=from_micros_or_none(until),
        job_id=job_id,
        note=note,
        decided_at=from_micros(decided_at),
    )


def change_columns(changes: Sequence[Change]) -> list[list[Any]]:
    """Return changes, then the fires of all of them, as `change_records` takes them: one list for each value."""
    rows = [
        (each.kind.value, each.name, each.seen, each.after, each.token, to_micros_or_none(each.due_at), each.body)
        for each in changes
    ]
    fires = [_fire_row(place, fire) for place, each in enumerate(changes, 1) for fire in each.fires]
    return [*_columns(rows), *(_columns(fires) or [[]] * _FIRE_COLUMNS)]


def _fire_row(place: int, fire: Fire) -> tuple[Any, ...]:
    return (
        place,
        fire.schedule,
        to_micros(fire.planned),
        fire.cause.value,
        fire.decision.value,
        fire.count,
        to_micros_or_none(fire.until),
        fire.job_id,
        readable(fire.note),
    )


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
