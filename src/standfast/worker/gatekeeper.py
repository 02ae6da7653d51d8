"""Sets the limits of a worker as time goes by: by peak hours, and by how the host does."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from standfast.clock import Clock
from standfast.events import Events, LimitChanged
from standfast.gates.adapting import Adapting
from standfast.gates.limit import Limit
from standfast.gates.limits import Limits
from standfast.worker.gates import Gates
from standfast.worker.slots import Slots

RECHECK = 1.0
"""Seconds at most between two looks: so it is noticed that a clock was set."""

OFTEN = 0.25
"""Seconds between two looks at how the host does."""

GUARD = timedelta(milliseconds=50)
"""How long before a peak the lower limit holds already: a start takes its time."""


class Gatekeeper:
    """Goes by the store's clock, as windows do; how the host does is judged by the host's own."""

    def __init__(
        self,
        limits: Limits,
        gates: Gates | None,
        slots: Slots,
        clock: Clock,
        *,
        events: Events,
        raised: Callable[[], None],
    ) -> None:
        self._worker = limits.worker
        self._gates = gates
        self._slots = slots
        self._clock = clock
        self._events = events
        self._raised = raised
        self._most = slots.limit
        self._peak: int | None = None
        self._adaptive = limits.adaptive
        self._adapting: Adapting | None = None
        if self._adaptive is not None:
            self._adapting = Adapting(self._most, self._adaptive.lowest, self._adaptive.clock())
        self._varying = [gate for gate in gates or () if gate.limit.peaks]
        self.look()

    @property
    def is_needed(self) -> bool:
        """Whether any limit changes by itself."""
        return bool(self._varying or self._worker.peaks or self._adapting)

    async def run(self) -> None:
        """Look whenever a peak begins or ends, and often where the host is to be spared."""
        while self.is_needed:
            await asyncio.sleep(self._until_next_look())
            if self.look():
                self._raised()

    def look(self) -> bool:
        """Set all limits by now; tell whether more may start than before."""
        now = self._clock.now()
        raised = self._look_at_gates(now)
        peak, free = _lowest(self._worker, now), self._slots.free
        words = []
        if peak != self._peak:
            words.append("peak hours are over" if peak is None else "peak hours")
        self._peak = peak
        words += self._adapt()
        before, limit = self._slots.limit, min(self._most, peak or self._most, self._adapted)
        if limit != before:
            self._slots.resize(limit)
            self._events.emit(LimitChanged("worker", "", limit, before, ", ".join(words)))
        return raised or self._slots.free > max(free, 0)

    def _look_at_gates(self, now: datetime) -> bool:
        raised = False
        for gate in self._varying:
            before, gate.most = gate.most, _lowest(gate.limit, now) or self._most
            if gate.most != before:
                raised = raised or gate.most > before
                words = "peak hours" if gate.most < before else "peak hours are over"
                self._events.emit(LimitChanged(gate.about, gate.name, gate.most, before, words))
        if raised and self._gates is not None:
            self._gates.look_behind(self._varying)
        return raised

    @property
    def _adapted(self) -> int:
        return self._most if self._adapting is None else self._adapting.limit

    def _adapt(self) -> list[str]:
        if self._adaptive is None or self._adapting is None:
            return []
        before = self._adapting.limit
        strain = self._adaptive.strain(self._adapting.changed_at)
        if not self._adapting.judge(strain, self._slots.taken, self._adaptive.clock()):
            return []
        return ["the host is slow" if self._adapting.limit < before else "the host is calm"]

    def _until_next_look(self) -> float:
        """Return the seconds until a limit changes: a peak holds from GUARD before it begins until its end."""
        now = self._clock.now()
        limits = [self._worker, *(gate.limit for gate in self._varying)]
        changes = [change for limit in limits if (change := limit.changes_after(now)) is not None]
        moments = [change - GUARD if change - GUARD > now else change for change in changes]
        seconds = OFTEN if self._adapting is not None else RECHECK
        return min([seconds, *((moment - now).total_seconds() for moment in moments)])


def _lowest(limit: Limit, now: datetime) -> int | None:
    """Return the lower of what holds now and what holds in a moment."""
    return min((each for each in (limit.at(now), limit.at(now + GUARD)) if each is not None), default=None)
