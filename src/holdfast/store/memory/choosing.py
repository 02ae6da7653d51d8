"""Which due jobs a claim takes: each queue's share first, and in every second place those that waited long."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, zip_longest

from holdfast.store.memory.rows import JobRow
from holdfast.store.protocol import ClaimRequest, priorities_in_turn


def choose_due(request: ClaimRequest, queues: Sequence[str], due: Iterable[JobRow], now: datetime) -> list[JobRow]:
    """Return at most `limit` of the due jobs, in the order in which the queues give them."""
    waiting: dict[str, list[JobRow]] = defaultdict(list)
    for row in sorted(due, key=lambda row: row.order):
        waiting[row.new.queue].append(row)
    visit = request.visit(queues)
    lines = {queue: _Line(request, visit, waiting[queue], now) for queue in queues}
    chosen: list[JobRow] = []
    for queue, share in [*_shares(request, queues), *((queue, request.limit) for queue in queues)]:
        chosen += lines[queue].give(min(share, request.limit - len(chosen)))
    return chosen


def _shares(request: ClaimRequest, queues: Sequence[str]) -> list[tuple[str, int]]:
    if request.queues is None or request.shares is None:
        return []
    share = dict(zip(request.queues, request.shares, strict=True))
    return [(queue, share[queue]) for queue in queues]


class _Line:
    """The due jobs of one queue in one call. Its places go on where the queue is asked a second time."""

    def __init__(self, request: ClaimRequest, visit: int, waiting: list[JobRow], now: datetime) -> None:
        self._place = visit
        self._left = len(waiting)
        self._urgent = iter(waiting)
        self._starved = _starved(request, visit, waiting, now)
        self._given = set[str]()

    def give(self, places: int) -> list[JobRow]:
        """Return the next jobs: in every second place a starved one, as long as there are any."""
        return [self._next() for _ in range(min(places, self._left))]

    def _next(self) -> JobRow:
        in_turn = chain(self._starved, self._urgent) if self._place % 2 else self._urgent
        row = next(row for row in in_turn if row.new.id not in self._given)
        self._given.add(row.new.id)
        self._place += 1
        self._left -= 1
        return row


def _starved(request: ClaimRequest, visit: int, waiting: list[JobRow], now: datetime) -> Iterator[JobRow]:
    """Return those that waited for half of the longest wait, their priorities taking turns."""
    if request.max_wait is None:
        return iter(())
    by_priority: dict[int, list[JobRow]] = defaultdict(list)
    for row in waiting:
        if now - row.run_at >= request.max_wait / 2:
            by_priority[row.new.priority].append(row)
    turns = zip_longest(*(by_priority[priority] for priority in priorities_in_turn(by_priority, visit)))
    return (row for turn in turns for row in turn if row is not None)
