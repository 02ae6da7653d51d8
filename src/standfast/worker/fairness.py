"""Shares a worker's claims among queues by their weights. Pure.

A queue's credit is how many jobs it is owed, counted among the queues that have jobs: its part, by weight, of what
they gave together, less what it gave. Credits add up to 0. So the proportion is kept in the long run, also by a
worker that asks for one job at a time.

    has jobs ──(gave less than its share)──► idle: no credit, asked for one job, so that its waking is noticed
        ▲                                      │
        └──────────(gave what was asked)───────┘

Nothing is lost by asking an idle queue: a share that is not used goes to the others.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from standfast.core.job import Claim


class Division(NamedTuple):
    """One claim call divided: the queues in the order in which what is left over goes to them, and their shares."""

    queues: tuple[str, ...]
    shares: tuple[int, ...]


class FairShares:
    """Divides claim calls among queues, and learns from what each brought."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._credit = dict.fromkeys(weights, 0.0)
        self._idle: list[str] = []
        self._asked: dict[str, int] = {}

    def divide(self, limit: int) -> Division:
        """Return how to ask for so many jobs."""
        asked_first = self._idle[:limit]
        self._idle = [*self._idle[limit:], *asked_first]  # in turn, where there are more of them than jobs wanted
        rest = limit - len(asked_first)
        shares = _in_whole_jobs(self._owed(rest), rest)
        self._asked = {**shares, **{queue: int(queue in asked_first) for queue in self._idle}}
        order = (*sorted(shares, key=lambda queue: self._ahead(queue, limit)), *self._idle)
        return Division(order, tuple(self._asked[queue] for queue in order))

    def learn(self, given: Mapping[str, int]) -> None:
        """Take note of how many due jobs each queue gave to the call that was divided last."""
        exhausted = [queue for queue, share in self._asked.items() if given.get(queue, 0) < share]
        woken = [queue for queue in self._idle if given.get(queue, 0) > 0]
        going_on = {queue: credit for queue, credit in self._credit.items() if queue not in exhausted}
        had = sum(given.get(queue, 0) - credit for queue, credit in going_on.items())
        weight = sum(self._weights[queue] for queue in going_on)
        self._credit = {
            queue: credit + had * self._weights[queue] / weight - given.get(queue, 0)
            for queue, credit in going_on.items()
        }
        self._credit.update(dict.fromkeys(woken, 0.0))
        if not self._credit:  # of none is it known that it has jobs: all are equal again
            self._credit = dict.fromkeys(self._weights, 0.0)
        still_idle = [queue for queue in self._idle if queue not in self._credit]
        self._idle = [*still_idle, *(queue for queue in exhausted if queue not in {*still_idle, *self._credit})]

    def _ahead(self, queue: str, limit: int) -> tuple[float, int]:
        """Return how far a queue is ahead with its share; what is left over goes to who is least ahead."""
        weight = self._weights[queue]
        part = limit * weight / sum(self._weights[each] for each in self._credit)
        return self._asked[queue] - self._credit[queue] - part, -weight

    def _owed(self, limit: int) -> dict[str, float]:
        """Return what each queue that has jobs should give: its part by weight and its credit, never below 0."""
        owed = dict.fromkeys(self._credit, 0.0)
        takers = list(self._credit)
        while takers:
            spare = limit - sum(self._credit[queue] for queue in takers)
            weight = sum(self._weights[queue] for queue in takers)
            part = {queue: self._credit[queue] + spare * self._weights[queue] / weight for queue in takers}
            positive = [queue for queue in takers if part[queue] > 0]
            if len(positive) == len(takers):
                return owed | part
            takers = positive
        return owed


def interleaved(claims: Sequence[Claim]) -> list[Claim]:
    """Return what a call brought with each queue's jobs spread evenly over it, and in their own order."""
    given = Counter(claim.queue for claim in claims)
    seen: Counter[str] = Counter()
    places: list[tuple[float, Claim]] = []
    for claim in claims:
        seen[claim.queue] += 1
        places.append(((seen[claim.queue] - 0.5) / given[claim.queue], claim))
    return [claim for _, claim in sorted(places, key=lambda place: place[0])]


def _in_whole_jobs(owed: Mapping[str, float], limit: int) -> dict[str, int]:
    """Round so that the sum is the limit: the largest remainders are rounded up."""
    shares = {queue: math.floor(part) for queue, part in owed.items()}
    missing = limit - sum(shares.values())
    by_remainder = sorted(owed, key=lambda queue: shares[queue] - owed[queue])
    for queue in by_remainder[:missing]:
        shares[queue] += 1
    return shares
