"""Changes of records, and their fires, as the columns in which a statement takes them."""

from collections.abc import Iterable, Sequence
from typing import Any

from standfast.core.record import Change, Fire
from standfast.store.postgres.readable import readable
from standfast.store.times import to_micros, to_micros_or_none

_FIRE_COLUMNS = 9


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
