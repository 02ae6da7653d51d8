"""The two scores of the game. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, quantiles, stdev

import msgspec

from game.counted.journal import Call
from game.counted.kinds import Kind
from game.rules import LIST_PRICE, LOST_PRICE, MEMBERSHIP_PRICE, READ_PRICE, VERBS


class Cost(msgspec.Struct, frozen=True):
    """What a game cost: how often the store was asked, by kind, and the sum by the price list."""

    lists: int
    lost: int
    reads: int
    membership: int

    @property
    def cost(self) -> int:
        """COST = 100 for each list, 10 for what was lost to others, 1 for a look at a job."""
        return LIST_PRICE * self.lists + LOST_PRICE * self.lost + READ_PRICE * self.reads

    @property
    def with_membership(self) -> int:
        """The same with beats and all else that keeps a fleet together, at 1 each: so nothing is hidden."""
        return self.cost + MEMBERSHIP_PRICE * self.membership


def count_cost(calls: Iterable[Call]) -> Cost:
    """Return what the calls cost. A list has its price whether or not it found anything or was answered."""
    counts: Counter[Kind] = Counter()
    lost = reads = 0
    for call in calls:
        kind = VERBS[call.verb]
        counts[kind] += 1
        lost += call.stale
        reads += max(1, call.jobs) if kind is Kind.READ else 0
    return Cost(counts[Kind.LIST], lost, reads, counts[Kind.MEMBERSHIP])


class Delays(msgspec.Struct, frozen=True):
    """How long after their time jobs had run, the work included, in milliseconds."""

    mean: float
    stdev: float
    median: float
    p99: float
    longest: float

    @property
    def efficient(self) -> float:
        """EFFICIENT = average + sample standard deviation."""
        return self.mean + self.stdev


def measure_delays(milliseconds: Sequence[float]) -> Delays | None:
    """Return what there is to say about delays; None without any."""
    if not milliseconds:
        return None
    if len(milliseconds) == 1:
        [only] = milliseconds
        return Delays(only, 0.0, only, only, only)
    percentiles = quantiles(milliseconds, n=100, method="inclusive")
    return Delays(fmean(milliseconds), stdev(milliseconds), percentiles[49], percentiles[98], max(milliseconds))
