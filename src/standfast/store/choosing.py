"""Which due jobs a claim takes: each queue's share first, and in every second place those that waited long.

Shared by the stores that choose in Python among rows of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from standfast.store.protocol import ClaimRequest, priorities_in_turn


class Candidate(NamedTuple):
    """A due job that may be chosen. Its time is in whatever way its store tells times."""

    queue: str
    priority: int
    run_at: Any
    """Since when it is due."""
    arrival: int
    """Its number in the order of arrival, which no other job has."""
    own: Any = None
    """What its store knows of it besides."""


def choose_due(
    request: ClaimRequest, queues: Sequence[str], due: Iterable[Candidate], long_ago: Any
) -> list[Candidate]:
    """Return at most `limit` of the due jobs, in the order in which the queues give them.

    A job that is due since `long_ago` or longer has waited for long; None where that makes no difference.
    """
    waiting: dict[str, list[Candidate]] = defaultdict(list)
    for row in sorted(due, key=_order):
        waiting[row.queue].append(row)
    visit = request.visit(queues)
    lines = {queue: _Line(visit, waiting[queue], long_ago) for queue in queues}
    chosen: list[Candidate] = []
    for queue, most in request.portions(queues):
        chosen += lines[queue].give(min(most, request.limit - len(chosen)))
    return chosen


def _order(row: Candidate) -> tuple[int, Any, int]:
    return (-row.priority, row.run_at, row.arrival)


class _Line:
    """The due jobs of one queue in one call. Its places go on where the queue is asked a second time."""

    def __init__(self, visit: int, waiting: list[Candidate], long_ago: Any) -> None:
        self._place = visit
        self._left = len(waiting)
        self._urgent = iter(waiting)
        self._starved = _starved(visit, waiting, long_ago)
        self._given = set[int]()

    def give(self, places: int) -> list[Candidate]:
        """Return the next jobs: in every second place a starved one, as long as there are any."""
        return [self._next() for _ in range(min(places, self._left))]

    def _next(self) -> Candidate:
        in_turn = chain(self._starved, self._urgent) if self._place % 2 else self._urgent
        row = next(row for row in in_turn if row.arrival not in self._given)
        self._given.add(row.arrival)
        self._place += 1
        self._left -= 1
        return row


def _starved(visit: int, waiting: list[Candidate], long_ago: Any) -> Iterator[Candidate]:
    """Return those that have waited for long, their priorities taking turns."""
    if long_ago is None:
        return iter(())
    by_priority: dict[int, list[Candidate]] = defaultdict(list)
    for row in waiting:
        if row.run_at <= long_ago:
            by_priority[row.priority].append(row)
    turns = zip_longest(*(by_priority[priority] for priority in priorities_in_turn(by_priority, visit)))
    return (row for turn in turns for row in turn if row is not None)
