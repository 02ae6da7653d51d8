"""What a process counts of each queue and task, in whole numbers so that sums are exact, and the rows of records."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Annotated, Protocol

import msgspec

from standfast.model.clock import Clock
from standfast.model.job import Claim, Ending, Verdict
from standfast.model.states import Move
from standfast.observe.figures.histogram import BUCKETS, LAST, ends_at, lengthen, shorten

Pair = tuple[str, str]
"""A queue and a task."""


class Naming(Protocol):
    """A rule, or an objective: what says which queue or task it is about."""

    @property
    def queue(self) -> str | None:
        """Its queue; None for any."""

    @property
    def task(self) -> str | None:
        """Its task; None for any."""


class Named(msgspec.Struct, frozen=True, array_like=True):
    """Queues and tasks that are told apart whatever else there is: those that a rule or objective is about."""

    queues: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    def rest_of(self, pair: Pair) -> Pair:
        """Return what a pair is counted as that there is no room for: it keeps the names that are here."""
        queue, task = pair
        return queue if queue in self.queues else "", task if task in self.tasks else ""

    def among(self, pairs: Iterable[Pair]) -> "Named":
        """Return those that any of these pairs has."""
        found = set(pairs)
        queues, tasks = {queue for queue, _ in found}, {task for _, task in found}
        return named(self.queues & queues, self.tasks & tasks)


UNNAMED = Named()
"""None at all."""


def named(queues: Iterable[str], tasks: Iterable[str]) -> Named:
    """Return these names; where there are none, the one value that is not written down."""
    return Named(frozenset(queues), frozenset(tasks)) if queues or tasks else UNNAMED


def named_by(watched: Iterable[Naming]) -> Named:
    """Return what rules and objectives name."""
    watched = list(watched)
    queues = [each.queue for each in watched if each.queue is not None]
    return named(queues, [each.task for each in watched if each.task is not None])


def all_named(some: Iterable[Named]) -> Named:
    """Return the names of several."""
    some = list(some)
    queues = {queue for each in some for queue in each.queues}
    return named(queues, {task for each in some for task in each.tasks})


OTHER: Pair = ("", "")
"""All pairs that there was no room for."""

PAIRS = 200
"""So many pairs a record tells apart, and besides those that a rule or an objective is about."""

ROWS_LIMIT = 48 * 1024
"""Bytes of the rows of one record: where they are more, fewer pairs are told apart."""

COMPLETED, FAILED, DEAD, CANCELLED, GIVEN_BACK, MICROS, RUN = range(7)
"""Places in a count. From RUN on is the histogram of how long runs took, and from LAG on of how late they began."""
LAG = RUN + BUCKETS
LONGEST_RUN = LAG + BUCKETS
LONGEST_LAG = LONGEST_RUN + 1
"""Places of the longest run and the longest lag, in microseconds: of several counts the longest counts."""
COLUMNS = LONGEST_LAG + 1

Count = list[int]
"""What was counted of one pair, by place."""

Counts = dict[Pair, Count]


Number = Annotated[int, msgspec.Meta(ge=0, le=2**56)]
"""A number that makes sense: microseconds since the year 1 do; a thousand of the largest are no span too large.

A row with another one was written by something damaged or hostile, and is not read.
"""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A count as it is written; `micros` is for how many microseconds handlers ran in all.

    `longest_run` and `longest_lag` are microseconds, too; 0 where a release wrote it that does not keep them.
    """

    queue: str
    task: str
    completed: Number
    failed: Number
    dead: Number
    cancelled: Number
    given_back: Number
    micros: Number
    run: tuple[Number, ...]
    lag: tuple[Number, ...]
    longest_run: Number = 0
    longest_lag: Number = 0


def new_count() -> Count:
    """Return a count of nothing."""
    return [0] * COLUMNS


def add_rows(counts: Counts, rows: Iterable[Row]) -> None:
    """Add to counts what rows say."""
    for row in rows:
        count = counts.get((row.queue, row.task)) or counts.setdefault((row.queue, row.task), new_count())
        ends = (row.completed, row.failed, row.dead, row.cancelled, row.given_back, row.micros)
        for place, number in enumerate(ends):
            count[place] += number
        for histogram, begin in ((row.run, RUN), (row.lag, LAG)):
            for bucket, number in lengthen(histogram):
                count[begin + bucket] += number
        count[LONGEST_RUN] = max(count[LONGEST_RUN], row.longest_run or _at_most(row.run))
        count[LONGEST_LAG] = max(count[LONGEST_LAG], row.longest_lag or _at_most(row.lag))


def _at_most(written: tuple[int, ...]) -> int:
    """Return the microseconds that nothing in a histogram exceeds, as far as it tells."""
    return int(1000 * ends_at(min(max(written[0] + len(written) - 2, 0), LAST))) if written else 0


def cut(counts: Mapping[Pair, Count], named: Named, kept: int) -> Counts:
    """Return counts in which so many pairs have their own, trouble first; of the others what is named is kept.

    Those that died come before those that failed, and these before those that only worked: no limit hides trouble.
    """
    rests = {pair: named.rest_of(pair) for pair in counts}

    def rank(pair: Pair) -> tuple[int, int, int, Pair]:
        count = counts[pair]
        return -count[DEAD], -count[FAILED], -sum(count[:MICROS]), pair

    ranked = sorted((pair for pair in counts if rests[pair] != pair), key=rank)
    of_rests: dict[Pair, list[Count]] = {rest: [counts[rest]] for rest in counts if rests[rest] == rest}
    for pair in ranked[kept:]:
        of_rests.setdefault(rests[pair], []).append(counts[pair])
    own = {pair: counts[pair] for pair in ranked[:kept]}
    return own | {rest: _sum(of_rests[rest]) for rest in sorted(of_rests, reverse=True)}


def _sum(counts: list[Count]) -> Count:
    columns = list(zip(*counts, strict=True))
    return [*map(sum, columns[:LONGEST_RUN]), *map(max, columns[LONGEST_RUN:])]


def to_rows(counts: Mapping[Pair, Count], named: Named = UNNAMED) -> tuple[Row, ...]:
    """Return counts as they are written: as many pairs as fit, and the rest as one, or under what is named."""
    rows = _rows(cut(counts, named, PAIRS))
    if _size(rows) <= ROWS_LIMIT:
        return rows
    room = ROWS_LIMIT - _size(_rows(cut(counts, named, 0)))  # the rest takes no more than if it were all
    if room < 0 and named != UNNAMED:
        return to_rows(counts)  # so many are named that they are not to be told apart, either
    sizes = accumulate(_size((row,)) for row in rows)
    return _rows(cut(counts, named, bisect_right(list(sizes), room)))


def _size(rows: tuple[Row, ...]) -> int:
    return len(msgspec.json.encode(rows))


def _rows(counts: Counts) -> tuple[Row, ...]:
    return tuple(_row(pair, count) for pair, count in counts.items() if any(count))


def _row(pair: Pair, count: Count) -> Row:
    completed, failed, dead, cancelled, given_back, micros = count[:RUN]
    run, lag = shorten(count[RUN:LAG]), shorten(count[LAG:LONGEST_RUN])
    longest = count[LONGEST_RUN:]
    return Row(*pair, completed, failed, dead, cancelled, given_back, micros, run, lag, *longest)


MINUTE = 60

MINUTES_KEPT = 60
"""So many minutes wait here to be published, at most: of a store that takes no more the oldest are forgotten."""

CROWDED = 5 * PAIRS
"""So many pairs are told apart while they are counted; of more the first stay by the rank that records have."""

COLUMN_OF: Mapping[Move, int] = {
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

    @property
    def ending(self) -> Ending:
        """How it ended, as its worker said."""

    @property
    def seconds(self) -> float:
        """For how long its handler ran."""


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
        places, last = COLUMN_OF, LAST
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
