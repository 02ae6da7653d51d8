"""What happens again and again is written down seldom: the first time, the tenth, the hundredth and so on.

So a trail tells of an attack, and is not filled by it. After a while without any, the next is a first one again.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

FORGIVEN = 600.0
"""Seconds without one after which the next is a first one again."""

MOST_KEPT = 100
"""So many are told apart at the same time; more are counted together."""

OTHERS = "others"
"""What those are counted as that are counted together."""


@dataclass(slots=True)
class _Counted:
    times: int
    last_at: float


class Thinning:
    """Counts what is alike."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._counted: OrderedDict[Hashable, _Counted] = OrderedDict()

    def count(self, what: Hashable) -> tuple[Hashable, int]:
        """Count one more; return as what it was counted, and how many there were of it."""
        now = self._ticks()
        while self._counted and now - next(iter(self._counted.values())).last_at >= FORGIVEN:
            self._counted.popitem(last=False)
        key = what if what in self._counted or len(self._counted) < MOST_KEPT else OTHERS
        found = self._counted.setdefault(key, _Counted(0, 0.0))
        found.times, found.last_at = found.times + 1, now
        self._counted.move_to_end(key)
        return key, found.times


def is_told(times: int) -> bool:
    """Tell whether this time it is written down."""
    return str(times).strip("0") == "1"
