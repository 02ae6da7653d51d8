"""Counts how attempts end, in the process that runs them. It is asked about every job, so it does little."""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.clock import Clock
from holdfast.core.job import Claim, Ending, Verdict
from holdfast.core.states import Move
from holdfast.figures.buckets import LAST
from holdfast.figures.rows import (
    CANCELLED,
    COMPLETED,
    DEAD,
    FAILED,
    GIVEN_BACK,
    LAG,
    LONGEST_LAG,
    LONGEST_RUN,
    MICROS,
    OTHER,
    PAIRS,
    RUN,
    Count,
    Counts,
    Pair,
    new_count,
)

MINUTE = 60

MINUTES_KEPT = 60
"""So many minutes wait here to be published, at most: of a store that takes no more the oldest are forgotten."""

PLACES: Mapping[Move, int] = {
    Move.COMPLETE: COMPLETED,
    Move.RETRY: FAILED,
    Move.DIE: DEAD,
    Move.CANCEL: CANCELLED,
    Move.RELEASE: GIVEN_BACK,
    Move.SNOOZE: GIVEN_BACK,
    Move.BLOCK: GIVEN_BACK,
}
"""Where an end is counted."""
_STALE = Verdict.STALE


class Ended(Protocol):
    """A claim that has ended, and for how many seconds its handler ran: 0 where it did not."""

    @property
    def claim(self) -> Claim:
        """The claim."""
        ...

    @property
    def ending(self) -> Ending:
        """How it ended, as its worker said."""
        ...

    @property
    def seconds(self) -> float:
        """For how long its handler ran."""
        ...


class Tally:
    """What one process has counted and not published yet, by the minute in which the store said yes to it.

    `clock` tells the store's time. A way back that turned out a cancellation, because somebody asked for one
    meanwhile, is counted as what the worker said.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minutes: dict[int, Counts] = {}
        self._current: Counts = {}
        self._until = -math.inf
        """When the current minute ends, by the boot clock, which is asked more cheaply."""

    def count(self, batch: Iterable[Ended], verdicts: Iterable[Verdict]) -> None:
        """Count what the store has answered; what was refused is counted by nobody."""
        counts = self._current if self._clock.boot() < self._until else self._next_minute()
        places, last = PLACES, LAST
        for ended, verdict in zip(batch, verdicts, strict=True):
            if verdict is _STALE:
                continue
            claim, ending, seconds = ended.claim, ended.ending, ended.seconds
            pair = (claim.queue, claim.task)
            count = counts.get(pair) or begin_count(counts, pair)
            count[places[ending.move]] += 1
            if seconds > 0:  # it has run
                micros = seconds * 1e6
                count[MICROS] += int(micros)
                if micros > count[LONGEST_RUN]:
                    count[LONGEST_RUN] = int(micros)
                bucket = int(micros * seconds).bit_length()
                count[RUN + bucket if bucket < last else RUN + last] += 1
                if ending.started_at is not None:
                    late = (ending.started_at - claim.run_at).total_seconds()
                    if late * 1e6 > count[LONGEST_LAG]:
                        count[LONGEST_LAG] = int(late * 1e6)
                    bucket = int(late * late * 1e6).bit_length() if late > 0 else 0
                    count[LAG + bucket if bucket < last else LAG + last] += 1

    def count_dead(self, queue: str, task: str) -> None:
        """Count a job that died with its worker."""
        begin_count(self._next_minute(), (queue, task))[DEAD] += 1

    def take(self) -> dict[int, Counts]:
        """Return what was counted by minute, as seconds since 1970, and begin anew."""
        taken, self._minutes, self._until = self._minutes, {}, -math.inf
        return {minute: counts for minute, counts in taken.items() if counts}

    def _next_minute(self) -> Counts:
        seconds = self._clock.now().timestamp()
        minute = int(seconds) // MINUTE * MINUTE
        self._until = self._clock.boot() + minute + MINUTE - seconds
        self._current = self._minutes.setdefault(minute, {})
        while len(self._minutes) > MINUTES_KEPT:
            del self._minutes[min(self._minutes)]
        return self._current


def begin_count(counts: Counts, pair: Pair) -> Count:
    """Return the count of a pair, one of its own while there is room."""
    return counts.setdefault(pair if pair in counts or len(counts) < PAIRS else OTHER, new_count())
