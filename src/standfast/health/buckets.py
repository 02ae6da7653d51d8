"""How often somebody may ask: a bucket of tokens for each, of which only so many are remembered."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

MOST_REMEMBERED = 4096
"""Of more, those who asked longest ago are forgotten: their buckets are most likely full again."""

LONGEST_DEBT = 60.0
"""Seconds after which any bucket owes nothing any more."""


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Buckets:
    """Buckets that fill at `rate` tokens a second, up to `burst`. Any thread may take from them."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, whose: Hashable, cost: float = 1, *, in_any_case: bool = False) -> float:
        """Take tokens out of a bucket; return 0, or, if there are not enough, after how many seconds there will be.

        Then none are taken, unless they are `in_any_case`, and the bucket owes them.
        """
        with self._lock:
            now = self._clock()
            bucket = self._buckets.setdefault(whose, _Bucket(self._burst, now))
            self._buckets.move_to_end(whose)
            if len(self._buckets) > MOST_REMEMBERED:
                self._buckets.popitem(last=False)
            bucket.level = min(self._burst, bucket.level + (now - bucket.at) * self._rate)
            bucket.at = now
            short = max(0.0, cost - bucket.level)
            if not short or in_any_case:
                bucket.level = max(bucket.level - cost, -LONGEST_DEBT * self._rate)
            return short / self._rate

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._buckets)
