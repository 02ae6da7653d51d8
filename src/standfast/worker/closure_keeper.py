"""Asks running jobs to finish before a window begins, and wakes the claimer when one has ended."""

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from enum import Enum

from standfast.clock import Clock
from standfast.events import Events, WindowBegan, WindowEnded, WindowNear
from standfast.schedule.closing import Closing
from standfast.worker.closures import Closure, Closures
from standfast.worker.control import Control

RECHECK = 1.0
"""Seconds at most between two looks: so it is noticed that a clock was set, or that one more job has started."""


class Phase(Enum):
    """How a closure stands."""

    OPEN = "open"
    NEAR = "near"
    """Open still, but what runs is asked to finish."""
    SHUT = "shut"


class ClosureKeeper:
    """Goes by the store's clock, as the closures do."""

    def __init__(
        self,
        closures: Closures,
        clock: Clock,
        events: Events,
        running: Callable[[], Collection[Control]],
        opened: Callable[[], None],
    ) -> None:
        self._closures = closures
        self._clock = clock
        self._events = events
        self._running = running
        self._opened = opened
        self._phases = dict.fromkeys(closures, Phase.OPEN)

    async def run(self) -> None:
        """Look whenever something begins or ends; where there are no windows, there is nothing to do."""
        while self._phases:
            now = self._clock.now()
            await asyncio.sleep(min(self._look(closure, closure.closing(now), now) for closure in self._phases))

    def _look(self, closure: Closure, closing: Closing | None, now: datetime) -> float:
        """Do what is to be done at one closure now; return the seconds until the next look."""
        before, phase = self._phases[closure], _phase(closing, now)
        if before is Phase.SHUT and phase is not before:
            self._events.emit(WindowEnded(closure.hours.about, closure.hours.name))
            self._opened()
        seconds = RECHECK if closing is None else self._keep(closure, closing, before, phase, now)
        self._phases[closure] = phase  # last: should something fail before, it is done again
        return seconds

    def _keep(self, closure: Closure, closing: Closing, before: Phase, phase: Phase, now: datetime) -> float:
        if phase is Phase.OPEN:
            return _until(closing.ask_at, now)
        inside = [control for control in self._running() if closure in self._closures.of(control.claim)]
        for control in inside:
            control.ask_to_finish(closing.end)
        if phase is not before:
            kind, hours = WindowBegan if phase is Phase.SHUT else WindowNear, closure.hours
            reason, running = closing.window.reason, len(inside)
            self._events.emit(
                kind(hours.about, hours.name, closing.begin, closing.end, reason=reason, running=running)
            )
        return _until(closing.end if phase is Phase.SHUT else closing.begin, now)


def _phase(closing: Closing | None, now: datetime) -> Phase:
    if closing is None or now < closing.ask_at:
        return Phase.OPEN
    return Phase.NEAR if now < closing.begin else Phase.SHUT


def _until(moment: datetime, now: datetime) -> float:
    return min((moment - now).total_seconds(), RECHECK)
