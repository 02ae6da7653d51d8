"""From the rows of a claim to what the worker gets, and what the next claim is to know."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

import msgspec

from standfast.core.job import Claim, ClaimRef, OnLate
from standfast.store.choosing import Candidate
from standfast.store.postgres.levels import Level
from standfast.store.sql_rows import NO_METADATA, Row, read_metadata
from standfast.store.times import from_micros
from standfast.store.unreadable import DAMAGES, read_each, unreadable_claim

# Claims are made in the hot path, and an enum's members are slow to get.
_RUN = OnLate.RUN

_SEQ, _ID, _QUEUE, _PRIORITY, _RUN_AT, _MARK = 4, 5, 10, 11, 12, 19


class Walked(msgspec.Struct, frozen=True):
    """What the first row of a claim tells of the levels that it walked, in their order.

    `waiting_at` is when the first job becomes due that is not fresh. The signature changes whenever a level comes
    or goes, or a queue is paused or resumed.
    """

    signature: str
    all: tuple[tuple[str, int, bool], ...] | None = msgspec.field(name="levels")
    waiting_at: int | None

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels."""
        return tuple((queue, priority) for queue, priority, _ in self.all or ())

    @property
    def empty(self) -> tuple[Level, ...]:
        """Those of them that had no fresh jobs."""
        return tuple((queue, priority) for queue, priority, is_empty in self.all or () if is_empty)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in their order."""
        return tuple(dict.fromkeys(queue for queue, _ in self.levels))


to_walked = msgspec.json.Decoder(Walked).decode


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What the first row of `claim_fresh` tells."""

    now: int
    xmin: str
    as_expected: bool
    empty: tuple[int, ...]
    """The places, from 1 on, of the levels that had no fresh jobs."""
    next_due_at: int | None


to_found = msgspec.json.Decoder(Found).decode


def marks_of(rows: Iterable[Row]) -> Iterable[tuple[Level, int]]:
    """Return how far the fresh jobs of each level were taken."""
    taken = {(row[_QUEUE], row[_PRIORITY], row[_MARK]) for row in rows}
    return [((queue, priority), int(mark)) for queue, priority, mark in taken if mark is not None]


def in_order(rows: Iterable[Row], queues: Sequence[str], now: int) -> list[Row]:
    """Return rows as a claim answers them: the due ones by queue and priority, then those ahead by their time."""
    place = {queue: number for number, queue in enumerate(queues)}

    def order(row: Row) -> tuple[int, ...]:
        run_at, seq, priority = row[_RUN_AT], row[_SEQ], -row[_PRIORITY]
        if run_at > now:
            return (1, run_at, priority, seq)
        return (0, place[row[_QUEUE]], priority, run_at, seq)

    return sorted(rows, key=order)


def as_chosen(rows: Iterable[Row], chosen: Sequence[Candidate]) -> list[Row]:
    """Return rows that are in order with the chosen ones first, in the order in which they were chosen."""
    place = {candidate.arrival: number for number, candidate in enumerate(chosen)}
    return sorted(rows, key=lambda row: place.get(row[_SEQ], len(place)))


def fresh_in_order(rows: list[Row], levels: Sequence[Level]) -> list[Row]:
    """Return rows of `claim_fresh`, sorted in their place, as a claim answers them."""
    rows.sort(key=_BY_TIME)
    if len(levels) > 1:
        place = {level: number for number, level in enumerate(levels)}
        rows.sort(key=lambda row: place[row[1], row[2]])
    return rows


_BY_TIME = itemgetter(3, 4)


def fresh_marks(rows: Iterable[Row], xmin: int) -> Iterable[tuple[Level, int]]:
    """Return how far the fresh jobs of each level were taken, by the rows of `claim_fresh`."""
    taken = {(queue, priority, xid) for _, queue, priority, _, _, xid, *_ in rows}
    return [((queue, priority), min(int(xid), xmin)) for queue, priority, xid in taken]


def to_fresh_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """Return the claims that the rows of `claim_fresh` tell of, in their order."""
    try:
        return _to_fresh_claims(rows)
    except DAMAGES:
        return tuple(
            read_each(_to_fresh_claims, rows, lambda row, error: unreadable_claim(row[-1], 1, row[1], error))
        )


def _to_fresh_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            ClaimRef(id_, 1),
            task,
            version,
            payload,
            queue,
            priority,
            from_micros(run_at),
            0,
            0,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            NO_METADATA if metadata is None else read_metadata(metadata),
        )
        for (
            _,
            queue,
            priority,
            run_at,
            _,
            _,
            task,
            version,
            payload,
            max_attempts,
            start_by,
            on_late,
            metadata,
            id_,
        ) in rows
    )


def to_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """Return the claims that `claims` tell of, in the order of the rows."""
    try:
        return _to_claims(rows)
    except DAMAGES:
        return tuple(read_each(_to_claims, rows, _unreadable))


def _unreadable(row: Row, error: Exception) -> Claim:
    return unreadable_claim(row[_ID], row[_ID + 1], row[_QUEUE], error)


def _to_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            ClaimRef(id_, fence),
            task,
            version,
            payload,
            queue,
            priority,
            from_micros(run_at),
            attempt,
            crashes,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            NO_METADATA if metadata is None else read_metadata(metadata),
        )
        for (
            _,
            _,
            _,
            _,
            _,
            id_,
            fence,
            task,
            version,
            payload,
            queue,
            priority,
            run_at,
            attempt,
            crashes,
            max_attempts,
            start_by,
            on_late,
            metadata,
            _,
        ) in rows
    )
