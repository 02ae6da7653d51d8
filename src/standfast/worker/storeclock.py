"""The store's time, as a worker can know it: jobs start by it, whatever the machine's own clock says.

A call of the store was sent at one moment of the boot clock and answered at another, and the time that its answer
tells was the store's somewhere in between. So each answer bounds how far the store's clock is ahead of the boot
clock, from below and from above, and the bounds of several answers narrow each other down. Of what is possible the
least counts: no job is early by the store's clock, and late only by what is left between the bounds.

Claims tell the time, and so do beats: a supervisor and its child have the boot clock in common.

A store on this machine has the machine's own clock. There is nothing to learn then, and a clock that is set is set
for the store as well.
"""

from datetime import UTC, datetime

from standfast.clock import Clock

DRIFT = 0.00005
"""Seconds in a second by which two clocks may grow apart."""


class StoreClock:
    """A clock that learns the store's time. Until it has heard of it, or if it is the same, it is the machine's."""

    def __init__(self, machine: Clock, *, same: bool = False) -> None:
        self._machine = machine
        self._same = same
        self.boot = machine.boot
        """Return seconds since this machine booted. The very method of the machine's: it is asked all the time."""
        self._learned_at: float | None = None
        self._least = self._most = 0.0

    def now(self) -> datetime:
        """Return the store's time."""
        if self._learned_at is None:
            return self._machine.now()
        return datetime.fromtimestamp(self.boot() + self._least, UTC)

    @property
    def vagueness(self) -> float:
        """By how many seconds it may be behind the store's."""
        return 0.0 if self._learned_at is None else self._most - self._least

    def learn(self, sent_at: float, store_now: datetime, answered_at: float) -> None:
        """Hear that it was `store_now` at the store, some time between two readings of the boot clock."""
        if self._same:
            return
        told = store_now.timestamp()
        least, most = told - answered_at, told - sent_at
        if self._learned_at is not None:
            drift = abs(answered_at - self._learned_at) * DRIFT
            known = (max(least, self._least - drift), min(most, self._most + drift))
            if known[0] <= known[1]:
                least, most = known
            elif answered_at < self._learned_at:
                return  # a clock was set, and what is known already is newer
        self._least, self._most, self._learned_at = least, most, max(answered_at, self._learned_at or answered_at)
