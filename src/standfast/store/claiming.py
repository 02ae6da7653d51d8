"""What a worker asks a store for, and what it is given: the values of `claim`."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from standfast.core.job import Claim, KnownTask

T = TypeVar("T")


class ClaimRequest(msgspec.Struct, frozen=True):
    """What a worker asks for: at most `limit` due jobs, and `ahead_limit` that become due within `look_ahead`.

    `queues` are tried in the order given; None means every queue by name, each in its turn the first, so that none
    starves. `shares`, one for each of the queues, are how many due jobs each gives before any gives more; what is
    left of `limit` after that goes to the queues in the order given.

    Within a queue a higher priority goes first. But of the due jobs that one queue gives in this call, every second
    place (the first one in odd visits) is for those that have waited for half of `max_wait` or longer, of whatever
    priority: the priorities that have such jobs take turns, the oldest job of each, from the lowest up, and the
    first turn moves on from visit to visit. So nothing starves, and an urgent job still need not wait for a long
    backlog. None lets priority alone decide.

    `call` numbers the worker's claims upward. `adopt` names blocked(no_worker) tasks that this worker knows: their
    due jobs are given as ready ones are, and those that are not given stay blocked. `group` takes due suspects of
    that very group (see `core.crash`) and nothing else; 0 leaves suspects where they are. Suspects that it adopts
    are blocked no more even so: the next beat tells of them. `closed` are queues that give nothing in this call, as
    if they were paused; `closed_tasks` are tasks of which nothing is given but what is adopted, and whose jobs do
    not count for `next_due_at`. They are passed over one by one; where that is only so many a call, others begin
    further on.

    `unknown` are tasks that this worker does not know, none of them closed, each from a version on: this call makes
    their due jobs blocked(no_worker), as many at once as the store likes, and gives what is behind them. Of very
    many jobs to be adopted a store may look at some thousands, and give the first of those.
    """

    worker: str
    call: int
    limit: int
    queues: tuple[str, ...] | None = None
    shares: tuple[int, ...] | None = None
    max_wait: timedelta | None = None
    look_ahead: timedelta = timedelta()
    ahead_limit: int = 0
    adopt: tuple[KnownTask, ...] = ()
    group: int = 0
    closed: tuple[str, ...] = ()
    closed_tasks: tuple[str, ...] = ()
    unknown: tuple[KnownTask, ...] = ()

    def in_turn(self, queues: Sequence[str]) -> list[str]:
        """Return the open queues in the order in which this call tries them."""
        return _turned(queues, self.call - 1 if self.queues is None else 0)

    def portions(self, queues: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield which of the open queues gives next, and how many due jobs at most: shares first, then the rest."""
        if self.queues is not None and self.shares is not None:
            shares = dict(zip(self.queues, self.shares, strict=True))
            yield from ((queue, shares[queue]) for queue in queues)
        yield from ((queue, self.limit) for queue in queues)

    def visit(self, queues: Sequence[str]) -> int:
        """Return which visit of each of the open queues this call is, as far as they take turns in being the first.

        Where they do, a queue sees every so manieth call only, and by the number of the call alone it might never
        have its places for those that have waited long.
        """
        return self.call if self.queues is not None else (self.call - 1) // (len(queues) or 1) + 1


def priorities_in_turn(priorities: Iterable[int], visit: int) -> list[int]:
    """Return priorities in the order in which their jobs that have waited long take turns in this visit."""
    return _turned(sorted(priorities), (visit - 1) // 2)


def _turned(line: Sequence[T], by: int) -> list[T]:
    first = by % len(line) if line else 0
    return [*line[first:], *line[:first]]


class ClaimAnswer(msgspec.Struct, frozen=True):
    """What a claim brought, by the store's time `now`.

    `next_due_at` is when the next unclaimed job of these queues becomes due, or became due if more is left; blocked
    ones do not count.
    """

    jobs: tuple[Claim, ...]
    now: datetime
    next_due_at: datetime | None = None
