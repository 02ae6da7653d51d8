"""How one waits for a lock: it looks, stands in line, and looks again; seldom, unless it is the first.

Who is first in line looks up to twenty times a second at first, and ever less often the longer it has waited, down
to some three times a second; it also looks when the holder's time is over. Who has others before it looks less
often the more there are: hundreds who wait cost the store little more than a few.
"""

import math
import time
from random import Random

from standfast.clock import Clock
from standfast.core.record import Kind
from standfast.locks.errands import Look, give_back, take
from standfast.locks.holding import Holding
from standfast.locks.roll import Bid
from standfast.locks.ways import Ways
from standfast.patience import PASSING, Patience
from standfast.store.protocol import Store

SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 0.4
"""Seconds between two looks of the first in line; a free place is left to it for a little longer."""

PART_WAITED = 1 / 20
"""Which part of the time that it has waited the first in line pauses."""

PAUSE_PER_RANK = 0.1
"""Seconds that each one before it in line adds to the pause of one who waits."""

LONGEST_BEHIND = 5.0
"""Seconds between two looks of one who has many before it."""

AFTER_END = 0.005
"""Seconds after the end of a holder's time at which to look."""


def pause_after(look: Look, waited: float, random: Random) -> float:
    """Return for how many seconds to pause after a look that brought no place."""
    first = min(max(waited * PART_WAITED, SHORTEST_PAUSE), LONGEST_PAUSE)
    if look.rank:
        return min(first + look.rank * PAUSE_PER_RANK, LONGEST_BEHIND) * random.uniform(0.5, 1)
    if look.freed_in is not None:
        first = min(first, max(look.freed_in.total_seconds(), 0) + AFTER_END)
    return first * random.uniform(0.8, 1)


class Acquiring:
    """One wait for a place in a lock. Whoever gives it up must `leave`: it may stand in line, or hold a place."""

    def __init__(self, ways: Ways, verbs: Store, clock: Clock, name: str, bid: Bid) -> None:
        self._ways = ways
        self._verbs = verbs
        self._clock = clock
        self._name = name
        self._bid = bid
        self._random = Random()  # noqa: S311 - jitter
        self._asked_at = clock.boot()

    async def wait(self, timeout: float | None, retry_for: float) -> Holding | None:
        """Wait for a place and return it; None where none was to be had in time.

        While the store is away it is tried again for `retry_for` seconds within that time. Raises StoreError then.
        """
        # By a clock that goes on in any case: that of the app may stand still, in a test.
        began, patience = time.monotonic(), Patience(retry_for)
        while True:
            self._asked_at, waited = self._clock.boot(), time.monotonic() - began
            left = math.inf if timeout is None else timeout - waited
            try:
                look = await self._ways.run(take(self._verbs, Kind.LOCK, self._name, self._bid, waits=left > 0))
            except PASSING as error:
                if left <= 0:
                    raise  # nobody knows whether it is free, or even ours
                pause = patience.pause_after(error)
            else:
                patience.reset()
                if look.token is not None:
                    holding = self.holding(look.token)
                    if not holding.lost:  # else the answer was too long under way to count
                        return holding
                pause = pause_after(look, waited, self._random)
            if left <= 0:
                return None
            await self._ways.pause(min(pause, left))

    async def leave(self) -> None:
        """Leave the line. Raises StoreError."""
        await self._ways.run(give_back(self._verbs, Kind.LOCK, self._name, self._bid.id))

    def holding(self, token: int = 0) -> Holding:
        """Return the place as it was last asked for."""
        ttl = self._bid.ttl.total_seconds()
        return Holding(self._name, self._bid.id, token, ttl=ttl, asked_at=self._asked_at, clock=self._clock)
