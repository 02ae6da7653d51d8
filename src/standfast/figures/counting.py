"""Counts how attempts end, in the process that runs them. It is asked about every job, so it does little."""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from standfast.clock import Clock
from standfast.core.job import Claim, Ending, Verdict
from standfast.core.states import Move
from standfast.figures.buckets import LAST
from standfast.figures.named import UNNAMED, Named
from standfast.figures.rows import (
    CANCELLED,
    COMPLETED,
    DEAD,
    FAILED,
    GIVEN_BACK,
    LAG,
    LONGEST_LAG,
    LONGEST_RUN,
    MICROS,
    PAIRS,
    RUN,
    Count,
    Counts,
    Pair,
    cut,
    new_count,
)

MINUTE = 60

MINUTES_KEPT = 60
"""So many minutes wait here to be published, at most: of a store that takes no more the oldest are forgotten."""

CROWDED = 5 * PAIRS
"""So many pairs are told apart while they are counted; of more the first stay by the rank that records have."""

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
    meanwhile, is counted as what the worker said. What is `named` is told apart, however many there are.
    """

    def __init__(self, clock: Clock, named: Named = UNNAMED) -> None:
        self.named = named
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
            count = counts.get(pair) or self._begin(counts, pair)
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
        counts, pair = self._next_minute(), (queue, task)
        (counts.get(pair) or self._begin(counts, pair))[DEAD] += 1

    def take(self) -> dict[int, Counts]:
        """Return what was counted by minute, as seconds since 1970, and begin anew."""
        taken, self._minutes, self._current, self._until = self._minutes, {}, {}, -math.inf
        return {minute: counts for minute, counts in taken.items() if counts}

    def _next_minute(self) -> Counts:
        seconds = self._clock.now().timestamp()
        minute = int(seconds) // MINUTE * MINUTE
        self._until = self._clock.boot() + minute + MINUTE - seconds
        if minute not in self._minutes:
            self._make_room(PAIRS)
            self._minutes[minute] = {}
        self._current = self._minutes[minute]
        self._make_room(CROWDED)
        while len(self._minutes) > MINUTES_KEPT:
            del self._minutes[min(self._minutes)]
        return self._current

    def _begin(self, counts: Counts, pair: Pair) -> Count:
        """Begin to count a pair. Room is made before the next batch: some of this one may be in hand."""
        if len(counts) >= CROWDED:
            self._until = -math.inf
        return counts.setdefault(pair, new_count())

    def _make_room(self, most: int) -> None:
        """Leave PAIRS pairs in the current minute where there are more than so many."""
        if len(self._current) > most:
            few = cut(self._current, self.named, PAIRS)
            self._current.clear()
            self._current.update(few)
