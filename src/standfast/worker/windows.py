"""Which queues and tasks are closed by their windows, and what becomes of a claim that finds its own closed.

Nothing is claimed of a closed queue, and what was claimed before goes back. The store knows nothing of closed tasks: a
job of one is claimed, and put off until the window ends. Running jobs are asked to finish before a window begins.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from standfast.events import Events, WindowBegan, WindowEnded, WindowNear
from standfast.model.clock import Clock
from standfast.model.job import Claim, Ending, OnLate
from standfast.model.states import Move, Reason
from standfast.schedules.closed_hours import About, ClosedHours, Closing
from standfast.worker.control import Control

GUARD = timedelta(milliseconds=50)
"""How long before a window nothing starts any more: a start takes its time, and the store's clock is not known to
the microsecond."""


class Closure:
    """The way into a queue or a task, closed by its windows."""

    def __init__(self, hours: ClosedHours) -> None:
        self.hours = hours
        self._since: datetime | None = None
        self._closing: Closing | None = None

    def closing(self, now: datetime) -> Closing | None:
        """Return the closing that is on, else the next one. It is remembered: it takes long to find."""
        known = self._closing
        if self._since is None or now < self._since or (known is not None and now >= known.end):
            self._closing, self._since = self.hours.closing_from(now), now
        return self._closing

    def closed_until(self, now: datetime) -> datetime | None:
        """Return when it opens, if it is closed."""
        closing = self.closing(now)
        return closing.end if closing is not None and closing.begin - GUARD <= now else None


class Closures:
    """All the windows of an app, by the store's clock."""

    def __init__(self, hours: Iterable[ClosedHours], clock: Clock) -> None:
        self._clock = clock
        closures = [Closure(each) for each in hours]
        self._queues = {closure.hours.name: closure for closure in closures if closure.hours.about is About.QUEUE}
        self._tasks = {closure.hours.name: closure for closure in closures if closure.hours.about is About.TASK}

    def __iter__(self) -> Iterator[Closure]:
        yield from self._queues.values()
        yield from self._tasks.values()

    def closed_queues(self) -> tuple[str, ...]:
        """Return the queues that are closed now."""
        if not self._queues:
            return ()
        now = self._clock.now()
        return tuple(name for name, closure in self._queues.items() if closure.closed_until(now) is not None)

    def next_opening(self) -> datetime | None:
        """Return when the next of the closed queues opens, if one is closed."""
        now = self._clock.now()
        return min(
            (until for closure in self._queues.values() if (until := closure.closed_until(now))), default=None
        )

    def all_closed(self, queues: Collection[str] | None) -> bool:
        """Tell whether there is none among these queues that is open; None means every queue."""
        return queues is not None and bool(self._queues) and set(queues) <= set(self.closed_queues())

    def of(self, claim: Claim) -> list[Closure]:
        """Return the closures that a job goes through."""
        found = (self._queues.get(claim.queue), self._tasks.get(claim.task))
        return [closure for closure in found if closure is not None]

    def closed_for(self, claim: Claim) -> timedelta | None:
        """Return for how long yet a job must not start, or None if it may."""
        queue, task = self._queues.get(claim.queue), self._tasks.get(claim.task)
        if queue is None and task is None:
            return None
        now = self._clock.now()
        return max(
            (until - now for closure in self.of(claim) if (until := closure.closed_until(now))), default=None
        )

    def refusal(self, claim: Claim) -> Ending | None:
        """Return how a claim ends whose time has come while its queue or task is closed; None if it may start."""
        queue, task = self._queues.get(claim.queue), self._tasks.get(claim.task)
        if queue is None and task is None:
            return None
        now = self._clock.now()
        if queue is not None and queue.closed_until(now) is not None:
            return Ending(claim.ref, Move.RELEASE)
        until = None if task is None else task.closed_until(now)
        if until is None:
            return None
        if not would_expire(claim, until):
            return Ending(claim.ref, Move.SNOOZE, delay=until - now)
        if claim.fence > 1:  # whether it has begun before is found out by its attempt
            return None
        return Ending(claim.ref, Move.CANCEL, reason=Reason.EXPIRED)


def would_expire(claim: Claim, until: datetime) -> bool:
    """Tell whether a job that is put off until a time must expire instead: put off it would count as not late."""
    return claim.on_late is OnLate.EXPIRE and claim.start_by is not None and until > claim.start_by


RECHECK = 1.0
"""Seconds at most between two looks: so it is noticed that a clock was set, or that one more job has started."""


class Phase(Enum):
    """How a closure stands."""

    OPEN = "open"
    NEAR = "near"  # open still, but what runs is asked to finish
    SHUT = "shut"


@dataclass(eq=False)
class ClosureKeeper:
    """Goes by the store's clock, as the closures do."""

    closures: Closures
    clock: Clock
    events: Events
    running: Callable[[], Collection[Control]]
    opened: Callable[[], None]

    def __post_init__(self) -> None:
        self._phases = dict.fromkeys(self.closures, Phase.OPEN)

    async def run(self) -> None:
        """Look whenever something begins or ends; where there are no windows, there is nothing to do."""
        while self._phases:
            now = self.clock.now()
            await asyncio.sleep(min(self._look(closure, closure.closing(now), now) for closure in self._phases))

    def _look(self, closure: Closure, closing: Closing | None, now: datetime) -> float:
        """Do what is to be done at one closure now; return the seconds until the next look."""
        before, phase = self._phases[closure], _phase(closing, now)
        if before is Phase.SHUT and phase is not before:
            self.events.emit(WindowEnded(closure.hours.about, closure.hours.name))
            self.opened()
        seconds = RECHECK if closing is None else self._keep(closure, closing, before, phase, now)
        self._phases[closure] = phase  # last: should something fail before, it is done again
        return seconds

    def _keep(self, closure: Closure, closing: Closing, before: Phase, phase: Phase, now: datetime) -> float:
        if phase is Phase.OPEN:
            return _until(closing.ask_at, now)
        inside = [control for control in self.running() if closure in self.closures.of(control.claim)]
        for control in inside:
            control.ask_to_finish(closing.end)
        if phase is not before:
            kind, hours = WindowBegan if phase is Phase.SHUT else WindowNear, closure.hours
            reason, running = closing.window.reason, len(inside)
            self.events.emit(
                kind(hours.about, hours.name, closing.begin, closing.end, reason=reason, running=running)
            )
        return _until(closing.end if phase is Phase.SHUT else closing.begin, now)


def _phase(closing: Closing | None, now: datetime) -> Phase:
    if closing is None or now < closing.ask_at:
        return Phase.OPEN
    return Phase.NEAR if now < closing.begin else Phase.SHUT


def _until(moment: datetime, now: datetime) -> float:
    return min((moment - now).total_seconds(), RECHECK)
