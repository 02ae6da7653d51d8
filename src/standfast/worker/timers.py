"""Holds claimed jobs until their time and a slot have come, and measures how many more to fetch."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.model.job import Claim
from standfast.worker.completer import Completer
from standfast.worker.control import Slots
from standfast.worker.lease import Lease, PollTurns
from standfast.worker.ports import Alarms, LoopAlarm

LONGEST_WAIT = 0.02  # seconds that a job may have to wait for a place, beyond its time
UNKNOWN = 0.1  # seconds that a job is expected to last at least, where nothing is known of it


def outlasts(ages: Sequence[float], lasts: float) -> list[float]:
    """Return for how many seconds more than others jobs will last that have run for so long.

    None (0) as a rule; but one that has run for longer than jobs last is of another kind: as long again.
    """
    return [age if age > lasts else 0.0 for age in ages]


def crowded_out(due_in: Sequence[float], free: int, ages: Sequence[float], lasts: float | None) -> list[int]:
    """Return the positions of those that would wait for too long, of jobs due in so many seconds, in their order.

    Every job is expected to last for the same time; those that run, to end one after the other within it, but for
    those that outlast it. Where it is not known how long they last, only those are crowded out that are due at the
    same time as too many others.
    """
    lasts = UNKNOWN if lasts is None else lasts
    within = [lasts * (position + 1) / (len(ages) + 1) for position in range(len(ages))]
    places = [0.0] * free + [more or end for more, end in zip(outlasts(ages, lasts), within, strict=True)]
    heapq.heapify(places)
    out = []
    for position, due in enumerate(due_in):
        starts = max(due, places[0])
        if starts - due > LONGEST_WAIT:
            out.append(position)
        else:
            heapq.heapreplace(places, starts + lasts)
    return out


# claimed ─► ahead (a heap by run_at) ─► due ─► started; given back when revoked, at a stop, or after a long wait
# Due jobs start in the store's order, which knows priorities and who has waited too long. All start through
# `_start_due`, which asks the lease first.

RECHECK = 1.0  # seconds at most between two looks at the clock, so that a step of the wall clock is noticed
PATIENCE = 1.0  # seconds that a due job waits for a slot here before others may have it
SHORT_PATIENCE = 0.2  # seconds that one which was held for later waits, where others may have a slot
CHECK = 0.125  # seconds between two looks at who has waited for how long


class Timers:
    """Holds claims until their time and a slot have come."""

    def __init__(
        self,
        clock: Clock,
        lease: Lease,
        slots: Slots,
        turns: PollTurns,
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


HORIZON = 0.1  # seconds of work, at the measured rate of ends, that may wait in hand
WINDOW = 0.02  # seconds over which the rate is measured
FORGETTING = 0.2  # how much of a higher rate is forgotten in each window with a lower one
LASTS = 1.0  # seconds that a job is expected to last, until one has ended
SHORTEST = 0.001  # seconds that it is expected to last at least
LEARNING = 0.1  # how much each job that ends tells about the next ones
MOST_AHEAD = 500  # jobs at most that are held for later, unless more can run at a time


@dataclass(eq=False)
class Load:
    """Counts ends. Prefetches no more than ends within a tenth of a second at the measured rate.

    Ends and not starts: a worker that has just filled its slots with slow jobs has no use for more of them.
    """

    clock: Clock
    slots: Slots
    timers: Timers
    completer: Completer
    settings: Settings

    def __post_init__(self) -> None:
        self._rate = 0.0
        self._ends = 0
        self.ended_so_far = 0  # how many attempts have ended
        self._since = self.clock.boot()
        self.lasts: float | None = None  # seconds that a job lasts, as those that ended of late did
        self._most = self._limit = max(MOST_AHEAD, self.settings.concurrency)
        self.enough = 0  # while more than this are due here no others are wanted, as things stood at the last look

    @property
    def wanted(self) -> int:
        """How many due jobs to fetch now; 0 while there is enough in hand."""
        if self.completer.crowded:
            return 0
        prefetch = int(self._measured_rate() * HORIZON)
        waiting, self.enough = self.timers.due, prefetch // 2
        if waiting and waiting > self.enough:
            return 0
        return max(0, self.slots.free + prefetch - waiting)

    @property
    def wanted_ahead(self) -> int:
        """How many jobs that are not yet due to hold in addition: as many as find a place here at their time."""
        return max(0, self._most_ahead() - self.timers.ahead)

    @property
    def wanted_together(self) -> int:
        """How many of them to hold in addition if all that are held might be due at the same time."""
        return max(0, min(self.slots.free - self.timers.ahead, self.wanted_ahead))

    @property
    def wanted_soon(self) -> int:
        """How many of them to hold in addition if they are due soon."""
        soon = self.timers.due_within(self.settings.safety_poll)
        return max(0, min(self.slots.free - soon, self.wanted_ahead))

    def overbooked(self) -> None:
        """Take note that due jobs waited in vain for those that run, which are half through, as a rule."""
        boot = self.clock.boot()
        ages = [age for age in self.slots.ages(boot) if age]
        if ages:
            self.lasts = max(self.lasts or 0.0, 2 * sum(ages) / len(ages))

    def too_many_ahead(self) -> None:
        """Take note that some had to go back, and only those that are still held will find a place."""
        self._most = max(self.timers.ahead, self.settings.concurrency)

    def not_too_many_ahead(self) -> None:
        """Take note that all of them will find a place: there might be room for more."""
        self._most = min(2 * self._most, self._limit)

    def ended(self, lasted: float | None) -> None:
        """Count the end of an attempt, whose handler ran for so many seconds, or never started (None)."""
        self._ends += 1
        self.ended_so_far += 1
        if lasted is not None:
            self.lasts = lasted if self.lasts is None else self.lasts + LEARNING * (lasted - self.lasts)

    def _most_ahead(self) -> int:
        look_ahead, lasts = self.settings.look_ahead, LASTS if self.lasts is None else max(self.lasts, SHORTEST)
        places = self.slots.free * max(look_ahead / lasts, 1.0)
        if places < self._most:
            outlasted = outlasts(self.slots.ages(self.clock.boot()), lasts)
            places += sum(look_ahead - more for more in outlasted if more < look_ahead) / lasts
        return min(int(places), self._most)

    def _measured_rate(self) -> float:
        now = self.clock.boot()
        elapsed = now - self._since
        if elapsed >= WINDOW:
            measured = self._ends / elapsed
            self._rate = max(measured, self._rate + FORGETTING * (measured - self._rate))
            self._ends, self._since = 0, now
        return self._rate
