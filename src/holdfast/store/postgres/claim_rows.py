"""From the rows of a claim to what the worker gets, and what the next claim is to know."""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core.job import Claim, ClaimRef, OnLate
from holdfast.store.postgres.levels import Level
from holdfast.store.postgres.rows import Row
from holdfast.store.times import from_micros

# Claims are made in the hot path: those without metadata share one mapping, and an enum's members are slow to get.
_NO_METADATA: Mapping[str, str] = MappingProxyType({})
_RUN = OnLate.RUN

_SEQ, _QUEUE, _PRIORITY, _RUN_AT, _MARK = 4, 10, 11, 12, 19


class Candidate(NamedTuple):
    """A due job that a claim may choose. `kind` says from where: see `due_jobs`."""

    queue: str
    priority: int
    run_at: int
    arrival: int
    kind: int


class Walked(NamedTuple):
    """The levels that a claim walked, in their order, and which of them had no fresh jobs."""

    levels: tuple[Level, ...]
    empty: tuple[Level, ...]

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in their order."""
        return tuple(dict.fromkeys(queue for queue, _ in self.levels))


def to_walked(levels: str | None) -> Walked:
    """Return the levels that the first row of an answer tells of."""
    rows = [] if levels is None else json.loads(levels)
    return Walked(
        tuple((queue, priority) for queue, priority, _ in rows),
        tuple((queue, priority) for queue, priority, is_empty in rows if is_empty),
    )


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


def to_claims(rows: Iterable[Row]) -> tuple[Claim, ...]:
    """Return the claims that `claims` tell of, in the order of the rows."""
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
            _NO_METADATA if metadata is None else json.loads(metadata),
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
