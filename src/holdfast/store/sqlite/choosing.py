"""Which due jobs of a queue go first where some have waited long: every second place is theirs.

The priorities that have such jobs take turns, and each gives its oldest. The other places go by
priority as ever, and so do those for which nobody is left who has waited long.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.store.protocol import ClaimRequest, priorities_in_turn
from holdfast.store.times import span_to_micros
from holdfast.store.verb import Query, Steps

_BEFORE_ALL = (-(2**63), 0)


@dataclass(slots=True)
class _Level:
    """The jobs of one priority that have waited long, oldest first; a page of them is fetched at a time."""

    priority: int
    last: tuple[int, int] = _BEFORE_ALL
    page: deque[int] = field(default_factory=deque)


class Turns:
    """The places of one queue in one claim call. They go on where a queue is asked a second time."""

    def __init__(
        self,
        sql: Mapping[str, str],
        request: ClaimRequest,
        queue: str,
        priorities: Iterable[int],
        *,
        visit: int,
        now: int,
    ) -> None:
        self._sql = sql
        self._place = visit
        self._levels = deque(map(_Level, priorities_in_turn(priorities, visit)))
        self._given = set[int]()
        self._queue, self._alone, self._now = queue, int(request.alone), now
        self._long_ago = long_ago(request, now)
        self._adoptable = adoptable(request)

    def choose(self, wanted: int) -> Steps[list[int]]:
        """Return the jobs, each by its seq, that get the next places; the caller claims them."""
        page = wanted // (2 * len(self._levels) or 1) + 1
        place = (self._queue, self._alone, self._now, wanted, self._adoptable)
        urgent = deque(seq for (seq,) in (yield Query(self._sql["due_in_order"], place)))
        chosen: list[int] = []
        while len(chosen) < wanted:
            seq = (yield from self._next_that_waited(page)) if self._place % 2 else None
            if seq is None:
                seq = self._first_left(urgent)
            if seq is None:
                break
            self._given.add(seq)
            self._place += 1
            chosen.append(seq)
        return chosen

    def _next_that_waited(self, page: int) -> Steps[int | None]:
        while self._levels:
            level = self._levels.popleft()
            seq = yield from self._oldest_of(level, page)
            if seq is None:
                continue
            self._levels.append(level)
            # A priority whose oldest has a place already, as an urgent job, has had its turn.
            if seq not in self._given:
                return seq
        return None

    def _oldest_of(self, level: _Level, page: int) -> Steps[int | None]:
        if not level.page:
            where = (*level.last, self._queue, self._alone, self._long_ago, page, self._adoptable, level.priority)
            rows = yield Query(self._sql["waiting_at"], where)
            if not rows:
                return None
            level.page.extend(seq for seq, _ in rows)
            [*_, (last_seq, last_run_at)] = rows
            level.last = (last_run_at, last_seq)
        return level.page.popleft()

    def _first_left(self, seqs: deque[int]) -> int | None:
        while seqs:
            seq = seqs.popleft()
            if seq not in self._given:
                return seq
        return None


def long_ago(request: ClaimRequest, now: int) -> int:
    """Return since when a job must have been due to have waited long."""
    return now if request.max_wait is None else now - span_to_micros(request.max_wait) // 2


def adoptable(request: ClaimRequest) -> str:
    """Return what a worker adopts, as the statements take it."""
    return json.dumps([(task.name, task.version) for task in request.adopt]) if request.adopt else "[]"
