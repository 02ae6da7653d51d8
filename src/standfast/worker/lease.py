"""How long this worker may trust its claims, judged by the boot clock alone.

renewed ──(2 beats, or lease − margin)──► stale: starts nothing ──(lease − margin)──► lost: handlers are told
   ▲                                                                                     │
   └──────────────── the next accepted beat ◄────────────────────────────────────────────┘     buried: for good
"""

import asyncio
import math

from standfast.clock import Clock


class Lease:
    """The worker's view of its own lease. Ends are counted from when a beat was *sent*, never from its answer."""

    def __init__(self, clock: Clock, lease: float, margin: float, beat_every: float) -> None:
        self._clock = clock
        self._trusted_for = lease - margin
        self._fresh_for = min(2 * beat_every, self._trusted_for)
        self._sent_at = self._fresh_until = self._distrusted_at = -math.inf
        self._renewal = asyncio.Event()
        self.buried = False

    def renewed(self, sent_at: float) -> None:
        """Take note of an accepted beat."""
        self._sent_at = max(self._sent_at, sent_at)
        if self._sent_at >= self._distrusted_at:
            self._fresh_until = self._sent_at + self._fresh_for
            self._renewal.set()

    def came_by(self, sent_at: float) -> None:
        """Take note of claims that were asked for then.

        If that is long ago, because this process stood still, beats may have brought word about them before they
        were known here: nothing starts before one that is sent from now on has said it again.
        """
        now = self._clock.boot()
        if now - sent_at >= self._fresh_for:
            self._distrusted_at, self._fresh_until = now, -math.inf

    def bury(self) -> None:
        """Take note that the store gave this worker up."""
        self.buried = True
        self._renewal.set()

    @property
    def fresh(self) -> bool:
        """Whether a job may start: a revocation made three beats ago has arrived, and the claim is ours."""
        return self._clock.boot() < self._fresh_until and not self.buried

    @property
    def lost(self) -> bool:
        """Whether others may have been given our jobs. Withdrawn when the next beat is accepted."""
        return self.buried or self._clock.boot() >= self._sent_at + self._trusted_for

    @property
    def remaining(self) -> float:
        """Seconds until the lease can no longer be trusted; at least 0."""
        return max(0.0, self._sent_at + self._trusted_for - self._clock.boot())

    async def renewal(self) -> None:
        """Wait for the next accepted beat, or for burial."""
        self._renewal.clear()
        await self._renewal.wait()
