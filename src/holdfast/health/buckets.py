"""How often somebody may ask: a bucket of tokens for each, of which only so many are remembered."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

MOST_REMEMBERED = 4096
"""Of more, those who asked longest ago are forgotten: their buckets are most likely full again."""


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

    def take(self, whose: Hashable, cost: float = 1) -> float:
        """Take tokens out of a bucket; return 0, or, with none taken, after how many seconds there are enough."""
        with self._lock:
            now = self._clock()
            bucket = self._buckets.setdefault(whose, _Bucket(self._burst, now))
            self._buckets.move_to_end(whose)
            if len(self._buckets) > MOST_REMEMBERED:
                self._buckets.popitem(last=False)
            bucket.level = min(self._burst, bucket.level + (now - bucket.at) * self._rate)
            bucket.at = now
            if bucket.level < cost:
                return (cost - bucket.level) / self._rate
            bucket.level -= cost
            return 0.0

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._buckets)
