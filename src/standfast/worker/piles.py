"""A flood told in few messages: the first of a kind as it comes, the others by their number, now and then.

    first of a kind ─► told         the others ─► counted ─► told together, once per `EVERY` seconds

So many kinds are known at a time; what comes beyond is of the kind `OTHERS`. All kinds together are told at no more
than a certain rate. Pure: the clock is given. Not for several threads at a time: its owner has a lock.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from standfast.core.incident import InvolvedJob
from standfast.worker.messages import Noticed

EVERY = 5.0
"""Seconds between two messages about one kind."""

SHORTEST_NAP = 0.1
"""Seconds between two looks: sums of times are not exact."""

FORGET_AFTER = 60.0
"""Seconds of quiet after which a kind is a new one."""

MOST_KINDS = 100
MOST_JOBS = 20
"""Jobs that are named of one kind."""

MOST_AT_ONCE = 20
"""Messages about all kinds together in the time of `EVERY`."""

OTHERS: Final = "others"


@dataclass(slots=True)
class Pile:
    """What there is of one kind: how its first was described, and how many were not told yet, by whose jobs."""

    noticed: Noticed
    count: int = 1
    told_at: float = float("-inf")
    jobs: dict[InvolvedJob, None] = field(default_factory=dict)


class Piles:
    """Counts by kind."""

    def __init__(self, boot: Callable[[], float]) -> None:
        self._boot = boot
        self._piles: dict[Hashable, Pile] = {}
        self._sent_at: deque[float] = deque(maxlen=MOST_AT_ONCE)

    def find(self, kind: Hashable) -> Pile | None:
        """Return the pile of a kind, if there is one already."""
        return self._piles.get(kind)

    @property
    def full(self) -> bool:
        """Whether no further kind can be known: it is one of the `OTHERS`."""
        return len(self._piles) >= MOST_KINDS

    def begin(self, kind: Hashable, noticed: Noticed) -> None:
        """Take in the first of a kind."""
        self._piles[kind] = Pile(noticed, jobs=dict.fromkeys(noticed.jobs))

    def due(self) -> list[Pile]:
        """Return what may be told now; from here on it counts as told, so its numbers are handed out with it."""
        now = self._boot()
        told = []
        for kind, pile in list(self._piles.items()):
            if not pile.count:
                if now - pile.told_at >= FORGET_AFTER:
                    del self._piles[kind]
            elif now - pile.told_at >= EVERY and self._may_send(now):
                told.append(Pile(pile.noticed, pile.count, now, pile.jobs))
                pile.count, pile.told_at, pile.jobs = 0, now, {}
        return told

    def rest(self) -> list[Pile]:
        """Return all that was not told yet, and forget it."""
        piles, self._piles = self._piles, {}
        return [pile for pile in piles.values() if pile.count]

    @property
    def next_in(self) -> float | None:
        """In how many seconds something is to be told; None where nothing waits."""
        waiting = [pile.told_at for pile in self._piles.values() if pile.count]
        if not waiting:
            return None
        free_at = self._sent_at[0] if len(self._sent_at) == MOST_AT_ONCE else float("-inf")
        return max(max(min(waiting), free_at) + EVERY - self._boot(), SHORTEST_NAP)

    def _may_send(self, now: float) -> bool:
        if len(self._sent_at) == MOST_AT_ONCE and now - self._sent_at[0] < EVERY:
            return False
        self._sent_at.append(now)
        return True
