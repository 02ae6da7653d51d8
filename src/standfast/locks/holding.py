"""A place in a lock as the process that has it knows it.

It goes by the boot clock, from before it asked, and ends a margin before the store ends it: so who holds knows of
its loss before anybody else can have the place. Lost is lost: nothing makes it valid again.
"""

import logging
import math
import os
import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from standfast.clock import Clock

log = logging.getLogger(__name__)

MARGIN = 1.0
"""Seconds before the end of a `ttl` at which its holder gives up, or a tenth of it where that is less."""

DRIFT = 0.001
"""Which part of a long `ttl` that is at least: by so much two clocks may differ in what they take for a second."""

Kept = Callable[[], float]
"""Until which boot time somebody else has kept a place for us; less than 0 once it is lost."""


class Holding:
    """One place in a lock, held from `asked_at` by the boot clock on. Read from any thread."""

    renews = True
    """Whether it ends unless it is renewed."""

    def __init__(self, name: str, holder: str, token: int, *, ttl: float, asked_at: float, clock: Clock) -> None:
        self.name = name
        self.id = holder
        self.token = token
        self.ttl = ttl
        self.kept: Kept = lambda: 0.0
        self._when_lost: deque[Callable[[], object]] = deque()
        self._margin = min(max(MARGIN, ttl * DRIFT), ttl / 10) if math.isfinite(ttl) else 0.0
        self._clock = clock
        self._pid = os.getpid()
        self._ends_at = asked_at + ttl - self._margin
        self._lost = False
        self._owner: Callable[[], object] = lambda: self

    def belongs_to(self, owner: object) -> None:
        """Be held for a `with` block of this lock object: if the object is gone, nothing can end the block."""
        self._owner = weakref.ref(owner)

    @property
    def forsaken(self) -> bool:
        """Whether the lock object is gone whose `with` block it is held for."""
        return self._owner() is None

    @property
    def span(self) -> timedelta:
        """For how long it is asked for at a time."""
        return timedelta(seconds=self.ttl)

    @property
    def is_ours(self) -> bool:
        """Whether this process took it: a fork of it has no part in that."""
        return os.getpid() == self._pid

    @property
    def ends_at(self) -> float:
        """Until which boot time it is held unless it is renewed."""
        kept = self.kept()
        return -math.inf if kept < 0 else max(self._ends_at, kept)

    @property
    def granted_at(self) -> float:
        """The boot time from which it was last granted."""
        return self.ends_at + self._margin - self.ttl

    @property
    def lost(self) -> bool:
        """Whether another may have the place by now."""
        if not self._lost and self._clock.boot() >= self.ends_at:
            self._lost = True
        return self._lost

    def renewed(self, asked_at: float) -> None:
        """Hold it for its `ttl` from when that was asked for."""
        self._ends_at = max(self._ends_at, asked_at + self.ttl - self._margin)

    def settle(self) -> None:
        """Go by what is known here from now on: nobody else keeps it any more."""
        self._lost, self._ends_at, self.kept = self.lost, self.ends_at, lambda: 0.0

    def lose(self) -> None:
        """Hold it no more."""
        self._lost = True

    def tell_lost(self) -> None:
        """Let everybody know who wants to; what fails at that harms nobody else."""
        while True:
            try:
                act = self._when_lost.pop()
            except IndexError:  # another thread may tell as well, and each is told once
                return
            try:
                act()
            except Exception:
                log.exception("what was to hear that lock %r is lost has failed", self.name)

    def when_lost(self, act: Callable[[], object]) -> None:
        """Have something called when it is lost; at once, if it is by now."""
        self._when_lost.append(act)
        if self._lost:
            self.tell_lost()
