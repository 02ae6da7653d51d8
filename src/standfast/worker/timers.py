"""Claimed jobs that have not started: a heap of those not yet due, and a queue of those that wait for a slot.

claimed ─► ahead (heap by run_at) ─► due (as they came) ─► started
    │               │                    ▲    │
    └───────────────┼────────────────────┘    │
                    └──── given back ◄────────┘   on revocation, stop, or a long wait for a slot

Due jobs start in the order in which the store gave them. It knows about priorities and about who has waited for too
long; to sort them by priority here once more would let those starve after all.

A job starts only through `_start_due`, which asks the lease first. It is never early by the store's clock.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count

from standfast.clock import Clock
from standfast.core.job import Claim
from standfast.worker.alarm import Alarms, LoopAlarm
from standfast.worker.booking import crowded_out
from standfast.worker.lease import Lease
from standfast.worker.slots import Slots
from standfast.worker.turns import Turns

RECHECK = 1.0
"""Seconds at most between two looks at the clock, so that a step of the wall clock is noticed."""

PATIENCE = 1.0
"""Seconds that a due job waits for a slot here before others may have it."""

SHORT_PATIENCE = 0.2
"""Seconds that one which was held for later waits, where others may have a slot."""

CHECK = 0.125
"""Seconds between two looks at who has waited for how long."""


class Timers:
    """Holds claims until their time and a slot have come."""

    def __init__(
        self,
        clock: Clock,
        lease: Lease,
        slots: Slots,
        turns: Turns,
        *,
        start: Callable[[Claim], None],
        release: Callable[[Claim], None],
        overbooked: Callable[[], None],
        full: Callable[[], None],
        alarms: Alarms = LoopAlarm,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._slots = slots
        self._turns = turns
        self._start = start
        self._release = release
        self._overbooked = overbooked
        self._full = full
        self._closed = False
        self._order = count()
        self._ahead: list[tuple[float, int, Claim]] = []
        self._due: deque[tuple[float, Claim]] = deque()
        self._alarm = alarms(self._go_off)
        self._goes_off_at = math.inf
        self._checks_from = self._tells_from = -math.inf

    @property
    def ahead(self) -> int:
        """How many claims are not yet due."""
        return len(self._ahead)

    @property
    def due(self) -> int:
        """How many claims are due and wait for a slot."""
        return len(self._due)

    def due_within(self, seconds: float) -> int:
        """Return how many claims become due so soon."""
        until = self._clock.now().timestamp() + seconds
        return sum(entry[0] <= until for entry in self._ahead)

    def hold(self, claims: Iterable[Claim]) -> None:
        """Take claims in, and start those that can start."""
        if self._closed:
            for claim in claims:
                self._release(claim)
            return
        self._note_due()
        now, boot = self._clock.now(), self._clock.boot()
        for claim in claims:
            if claim.run_at <= now:
                self._due.append((boot + PATIENCE, claim))
            else:
                heapq.heappush(self._ahead, (claim.run_at.timestamp(), next(self._order), claim))
        self.pump()

    def pump(self) -> None:
        """Start what is due, has a slot and is covered by the lease; set the alarm for the rest."""
        self._note_due()
        self._start_due()
        self._set_alarm()

    def slot_free(self) -> None:
        """Start the next one, if any is due; the alarm for the others is set already."""
        if self._due:
            self._start_due()

    def close(self) -> None:
        """Give back all, and what comes from now on."""
        self._closed = True
        self.give_back(lambda _: True)

    def give_back(self, wanted: Callable[[Claim], bool]) -> list[Claim]:
        """Let others have those of the claims that have not started and are wanted; return them."""
        out = self.take_out(wanted)
        for claim in out:
            self._release(claim)
        return out

    def give_back_crowded(self, after: datetime, lasts: float | None) -> list[Claim]:
        """Give back those that would find no place here at their time, if that is after this one; return them.

        Jobs are expected to last so long.
        """
        now = self._clock.now().timestamp()
        ahead = sorted(self._ahead)
        ages = self._slots.ages(self._clock.boot())
        out = crowded_out([entry[0] - now for entry in ahead], self._slots.free, ages, lasts)
        crowded = {claim.ref for claim in (ahead[position][-1] for position in out) if claim.run_at > after}
        return self.give_back(lambda claim: claim.ref in crowded) if crowded else []

    def take_out(self, wanted: Callable[[Claim], bool]) -> list[Claim]:
        """Return those of the claims that have not started and are wanted; they are held here no more."""
        held = [*(entry[-1] for entry in self._ahead), *(entry[-1] for entry in self._due)]
        out = [claim for claim in held if wanted(claim)]
        if out:
            self._ahead = [entry for entry in self._ahead if not wanted(entry[-1])]
            self._due = deque(entry for entry in self._due if not wanted(entry[-1]))
            heapq.heapify(self._ahead)
        return out

    def _note_due(self) -> None:
        """See what has become due. Without a fresh lease nothing has: the store's clock may have been set since."""
        if not self._ahead or not self._lease.fresh:
            return
        now = self._clock.now().timestamp()
        if self._ahead[0][0] > now:
            return
        waits_until = self._clock.boot() + (SHORT_PATIENCE if self._turns.has_others else PATIENCE)
        while self._ahead and self._ahead[0][0] <= now:
            self._due.append((waits_until, heapq.heappop(self._ahead)[-1]))

    def _start_due(self) -> None:
        while self._due and self._slots.free > 0 and self._lease.fresh:
            self._start(self._due.popleft()[-1])

    def _set_alarm(self) -> None:
        """Set the alarm, unless it goes off early enough already."""
        if not self._due and not self._ahead:
            return
        delay = CHECK if self._due else RECHECK
        if self._ahead:
            soonest = 0.0 if self._lease.fresh else CHECK
            delay = min(max(self._ahead[0][0] - self._clock.now().timestamp(), soonest), delay)
        self._go_off_in(delay)

    def _go_off_in(self, delay: float) -> None:
        goes_off_at = self._clock.boot() + delay
        if goes_off_at < self._goes_off_at:
            self._goes_off_at = goes_off_at
            self._alarm.set(delay)

    def _go_off(self) -> None:
        self._goes_off_at = math.inf
        self.pump()
        self._give_back_overdue()
        self._tell_if_full()

    def _tell_if_full(self) -> None:
        """Say now and again that there is no place for what is held for later, for those that run may last."""
        boot = self._clock.boot()
        if self._ahead and boot >= self._tells_from and self._is_full():
            self._tells_from = boot + RECHECK
            self._full()

    def _is_full(self) -> bool:
        """Tell whether there is no place now for some of what is held for later."""
        return self._slots.free <= 0

    def _give_back_overdue(self) -> None:
        """Let others have what has waited for too long, several at a time where many do."""
        boot = self._clock.boot()
        if not self._due or self._slots.free > 0 or boot < self._checks_from:
            return
        self._checks_from = boot + CHECK
        overdue = {claim.ref for waits_until, claim in self._due if waits_until <= boot}
        if overdue:
            self.give_back(lambda claim: claim.ref in overdue)
            self._overbooked()
