"""The limits of a worker: gates for queues, tasks and names, and the slots, which vary with time and load.

A job counts at each gate that it goes through. A full gate is closed to claims: its queue or tasks are named in
them, and the store gives other jobs instead. What finds a gate full after all goes back, except where attempts are
so short that a claim for each would take longer than they do: then some wait, no more than will have gone through
in a tenth of a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from standfast.events import Events, LimitChanged
from standfast.model.clock import Clock
from standfast.model.crash import group_limit
from standfast.model.job import Claim
from standfast.schedules.adaptive import Adapting
from standfast.schedules.limits import Limit, Limits
from standfast.stores.values import ClaimRequest
from standfast.worker.control import Control, Slots
from standfast.worker.timers import CHECK, PATIENCE, SHORT_PATIENCE, Timers, crowded_out

HORIZON = 0.1  # seconds of work that may wait at a gate
LEARNING = 0.2  # how much each attempt that ends tells about how long the next ones last
MOST_WAITING = 500

REST = 4.0
"""How much longer than it took more than others the store is left alone after a claim that passed over many."""

LONGEST_REST = 0.5
_NOT_WORTH_IT = 0.002
_SHORTEST = 0.0001


@dataclass(eq=False)
class Gate:
    """One gate."""

    about: str
    name: str
    limit: Limit
    most: int  # how many may run at a time now
    taken: int = 0  # how many run
    waiting: int = 0  # how many claims wait here
    turned_away: bool = False  # whether a claim has lately brought more than there was room for
    passed_over: bool = False  # whether a claim has passed over its jobs, so that there may be some to find
    lasts: float | None = None  # seconds that one is inside, as those that left of late were

    @property
    def is_full(self) -> bool:
        """Whether nothing more may start."""
        return self.taken >= self.most

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be claimed."""
        return self.room <= 0 or (self.waiting > 0 and self.waiting > self._may_wait // 2)

    @property
    def room(self) -> int:
        """How many more may be brought here."""
        return self.most + self._may_wait - self.taken - self.waiting

    @property
    def _may_wait(self) -> int:
        if self.lasts is None:
            return 0
        return min(int(self.most * HORIZON / max(self.lasts, _SHORTEST)), MOST_WAITING)

    def lasted(self, seconds: float) -> None:
        """Learn how long one was inside."""
        self.lasts = seconds if self.lasts is None else self.lasts + LEARNING * (seconds - self.lasts)

    def kept_waiting(self, seconds: float) -> None:
        """Learn that some have waited here in vain for so long."""
        self.lasts = max(self.lasts or 0.0, seconds)


class Gates:
    """All gates of a worker, and who is inside."""

    def __init__(self, limits: Limits, concurrency: int) -> None:
        def made(about: str, declared: Mapping[str, Limit]) -> dict[str, Gate]:
            return {name: Gate(about, name, limit, limit.most or concurrency) for name, limit in declared.items()}

        named, own = made("gate", limits.gates), made("task", limits.tasks)
        self._queues = made("queue", limits.queues)
        self._tasks = {
            task: (*([own[task]] if task in own else ()), *(named[name] for name in limits.gates_of.get(task, ())))
            for task in dict.fromkeys((*own, *limits.gates_of))
        }
        self._all = (*self._queues.values(), *own.values(), *named.values())
        self._takes: float | None = None
        self._ways: dict[tuple[str, str], tuple[Gate, ...]] = {}
        self.opened: Callable[[], None] = lambda: None
        """Hears that there may be something to find for a gate that was closed."""

    def __iter__(self) -> Iterator[Gate]:
        return iter(self._all)

    def way_of(self, claim: Claim) -> tuple[Gate, ...]:
        """Return the gates that a job goes through."""
        way = self._ways.get((claim.queue, claim.task))
        if way is None:
            queue = self._queues.get(claim.queue)
            way = (*([] if queue is None else [queue]), *self._tasks.get(claim.task, ()))
            self._ways[claim.queue, claim.task] = way
        return way

    def enter(self, claim: Claim) -> None:
        """Count a job that starts."""
        for gate in self.way_of(claim):
            gate.taken += 1

    def leave(self, claim: Claim, lasted: float) -> None:
        """Count one that has ended, so many seconds after its start."""
        way = self.way_of(claim)
        for gate in way:
            gate.taken -= 1
            gate.lasted(lasted)
        self.look_behind(way)

    def look_behind(self, gates: Iterable[Gate]) -> None:
        """See whether gates are open again whose jobs were passed over, and say so."""
        for gate in gates:
            if gate.passed_over and not gate.is_closed:
                gate.passed_over = False
                self.opened()

    # -- claims ----------------------------------------------------------------------------------------------

    def most(self, limit: int) -> int:
        """Return how many jobs to ask for at once: where a gate may get too many, no more than it has room for."""
        return min([limit, *(gate.room for gate in self._all if gate.turned_away and not gate.is_closed)])

    def narrow(self, request: ClaimRequest) -> ClaimRequest:
        """Return a request that asks for nothing that would find a gate closed here."""
        queues = tuple(name for name, gate in self._queues.items() if gate.is_closed)
        tasks = tuple(task for task, way in self._tasks.items() if any(gate.is_closed for gate in way))
        if not queues and not tasks:
            return request
        for gate in self._all:
            gate.passed_over = gate.passed_over or gate.is_closed
        adopt = tuple(task for task in request.adopt if task.name not in tasks)
        return replace(request, closed=queues, closed_tasks=tasks, adopt=adopt)

    def rest_after(self, request: ClaimRequest, took: float) -> float:
        """Return for how many seconds to leave the store to others after a claim that took so long."""
        if not request.closed_tasks:
            self._takes = took if self._takes is None else self._takes + LEARNING * (took - self._takes)
        longer = took - (took if self._takes is None else self._takes)
        return min(REST * longer, LONGEST_REST) if request.closed_tasks and longer > _NOT_WORTH_IT else 0.0

    def closes(self, queues: Iterable[str] | None) -> bool:
        """Tell whether every one of these queues is closed here; None means every queue there is."""
        if queues is None or any(not (gate and gate.is_closed) for gate in map(self._queues.get, queues)):
            return False
        for gate in self._queues.values():
            gate.passed_over = gate.passed_over or gate.is_closed
        return True

    def learn(self, request: ClaimRequest, claims: Iterable[Claim], *, filled: bool) -> None:
        """Forget that a gate got too many, once a call brought it none, or less than was asked for."""
        crowded = [gate for gate in self._all if gate.turned_away]
        if not crowded:
            return
        met = {gate for claim in claims for gate in self.way_of(claim)}
        for gate in crowded:
            asked = gate.about != "queue" or gate.name not in request.closed
            if asked and not gate.is_closed and not (filled and gate in met):
                gate.turned_away = False


# A due job starts if its gates have room, waits at a gate for a moment where attempts are short, or goes back. A
# job held for later goes back early if its gate will be full. A worker without gates uses the plain classes.


class GatedSlots(Slots):
    """Counts attempts at their gates, too."""

    def __init__(self, concurrency: int, gates: Gates, boot: Callable[[], float]) -> None:
        super().__init__(concurrency)
        self._gates = gates
        self._boot = boot
        self._entered: dict[Control, float] = {}

    def take(self, control: Control) -> None:
        """Give an attempt its slot."""
        super().take(control)
        self._entered[control] = self._boot()
        self._gates.enter(control.claim)

    def leave(self, control: Control) -> None:
        """Have the slot back."""
        super().leave(control)
        self._gates.leave(control.claim, self._boot() - self._entered.pop(control))

    def ages_inside(self, gate: Gate) -> list[float]:
        """Return for how many seconds each of those inside a gate has been there."""
        boot = self._boot()
        return [boot - at for each, at in self._entered.items() if gate in self._gates.way_of(each.claim)]


class GatedTimers(Timers):
    """Lets a claim start only where each of its gates has room."""

    _slots: GatedSlots

    def __init__(self, *parts: Any, gates: Gates, **rest: Any) -> None:
        super().__init__(*parts, **rest)
        self._gates = gates
        self._at_gates: dict[tuple[Gate, ...], deque[tuple[float, Claim]]] = {}

    def slot_free(self) -> None:
        """Start the next one, if any is due or waits at a gate."""
        if self._due or self._at_gates:
            self._start_due()

    def take_out(self, wanted: Callable[[Claim], bool]) -> list[Claim]:
        """Return those of the claims that have not started and are wanted; they are held here no more."""
        out = super().take_out(wanted)
        for way, line in list(self._at_gates.items()):
            left = deque(entry for entry in line if not wanted(entry[-1]))
            out += [claim for _, claim in line if wanted(claim)]
            self._keep(way, left, len(line))
        return out

    def give_back_crowded(self, after: datetime, lasts: float | None) -> list[Claim]:
        """Give back also those that would find one of their gates full at their time."""
        out = super().give_back_crowded(after, lasts)
        now = self._clock.now().timestamp()
        lines: dict[Gate, list[tuple[float, int, Claim]]] = {}
        for entry in sorted(self._ahead):
            for gate in self._gates.way_of(entry[-1]):
                lines.setdefault(gate, []).append(entry)
        crowded = set()
        for gate, line in lines.items():
            ages = sorted(self._slots.ages_inside(gate))[: gate.most]
            free = max(0, gate.most - gate.taken - gate.waiting)
            places = crowded_out([entry[0] - now for entry in line], free, ages, gate.lasts)
            crowded |= {line[place][-1].ref for place in places if line[place][-1].run_at > after}
        return out + (self.give_back(lambda claim: claim.ref in crowded) if crowded else [])

    def _start_due(self) -> None:
        for way, line in list(self._at_gates.items()):
            self._start_waiting(way, line)
        full: list[Claim] = []
        while self._due and self._slots.free > 0 and self._lease.fresh:
            waits_until, claim = self._due.popleft()
            way = self._gates.way_of(claim)
            if way not in self._at_gates and not any(gate.is_full for gate in way):
                self._start(claim)
            elif all(gate.room > 0 for gate in way):
                soon = self._clock.boot() + SHORT_PATIENCE
                waits_until = min(waits_until, soon) if self._turns.has_others else waits_until
                self._at_gates.setdefault(way, deque()).append((waits_until, claim))
                for gate in way:
                    gate.waiting += 1
            else:
                full.append(claim)
        for claim in full:
            for gate in self._gates.way_of(claim):
                gate.turned_away = gate.turned_away or gate.room <= 0
            self._release(claim)
        if self._at_gates:
            self._go_off_in(CHECK)

    def _start_waiting(self, way: tuple[Gate, ...], line: deque[tuple[float, Claim]]) -> None:
        size, left = len(line), deque(line)
        while left and self._slots.free > 0 and self._lease.fresh and not any(gate.is_full for gate in way):
            self._start(left.popleft()[-1])
        self._keep(way, left, size)

    def _give_back_overdue(self) -> None:
        super()._give_back_overdue()
        boot = self._clock.boot()
        overdue = set()
        for way, line in self._at_gates.items():
            in_vain = {claim.ref for until, claim in line if until <= boot}
            overdue |= in_vain
            for gate in way if in_vain else ():
                gate.kept_waiting(PATIENCE)
        if overdue:
            self.give_back(lambda claim: claim.ref in overdue)

    def _is_full(self) -> bool:
        return super()._is_full() or any(
            gate.is_full for entry in self._ahead for gate in self._gates.way_of(entry[-1])
        )

    def _keep(self, way: tuple[Gate, ...], left: deque[tuple[float, Claim]], size: int) -> None:
        """Keep those in line that are left of so many."""
        if len(left) == size:
            return
        for gate in way:
            gate.waiting -= size - len(left)
        if left:
            self._at_gates[way] = left
        else:
            self._at_gates.pop(way)
        self._gates.look_behind(way)


def slots_and_timers(
    limits: Limits, concurrency: int, group: int, boot: Callable[[], float]
) -> tuple[Gates | None, Slots, Callable[..., Timers]]:
    """Return the gates of a worker, its slots, and what makes its timers; no gates where none is declared."""
    if not limits.apart or group_limit(group) == 1:
        return None, Slots(concurrency), Timers
    gates = Gates(limits, concurrency)
    return gates, GatedSlots(concurrency, gates, boot), partial(GatedTimers, gates=gates)


RECHECK = 1.0  # seconds at most between two looks: so it is noticed that a clock was set
OFTEN = 0.25  # seconds between two looks at how the host does
GUARD = timedelta(milliseconds=50)  # how long before a peak the lower limit holds already: a start takes its time


@dataclass(eq=False)
class Gatekeeper:
    """Goes by the store's clock, as windows do; how the host does is judged by the host's own."""

    limits: Limits
    gates: Gates | None
    slots: Slots
    clock: Clock
    _: KW_ONLY
    events: Events
    raised: Callable[[], None]

    def __post_init__(self) -> None:
        self._worker = self.limits.worker
        self._most = self.slots.limit
        self._peak: int | None = None
        self._adaptive = self.limits.adaptive
        self._adapting: Adapting | None = None
        if self._adaptive is not None:
            self._adapting = Adapting(self._most, self._adaptive.lowest, self._adaptive.clock())
        self._varying = [gate for gate in self.gates or () if gate.limit.peaks]
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
                self.raised()

    def look(self) -> bool:
        """Set all limits by now; tell whether more may start than before."""
        now = self.clock.now()
        raised = self._look_at_gates(now)
        peak, free = _lowest(self._worker, now), self.slots.free
        words = []
        if peak != self._peak:
            words.append("peak hours are over" if peak is None else "peak hours")
        self._peak = peak
        words += self._adapt()
        before, limit = self.slots.limit, min(self._most, peak or self._most, self._adapted)
        if limit != before:
            self.slots.resize(limit)
            self.events.emit(LimitChanged("worker", "", limit, before, ", ".join(words)))
        return raised or self.slots.free > max(free, 0)

    def _look_at_gates(self, now: datetime) -> bool:
        raised = False
        for gate in self._varying:
            before, gate.most = gate.most, _lowest(gate.limit, now) or self._most
            if gate.most != before:
                raised = raised or gate.most > before
                words = "peak hours" if gate.most < before else "peak hours are over"
                self.events.emit(LimitChanged(gate.about, gate.name, gate.most, before, words))
        if raised and self.gates is not None:
            self.gates.look_behind(self._varying)
        return raised

    @property
    def _adapted(self) -> int:
        return self._most if self._adapting is None else self._adapting.limit

    def _adapt(self) -> list[str]:
        if self._adaptive is None or self._adapting is None:
            return []
        before = self._adapting.limit
        strain = self._adaptive.strain(self._adapting.changed_at)
        if not self._adapting.judge(strain, self.slots.taken, self._adaptive.clock()):
            return []
        return ["the host is slow" if self._adapting.limit < before else "the host is calm"]

    def _until_next_look(self) -> float:
        """Return the seconds until a limit changes: a peak holds from GUARD before it begins until its end."""
        now = self.clock.now()
        limits = [self._worker, *(gate.limit for gate in self._varying)]
        changes = [change for limit in limits if (change := limit.changes_after(now)) is not None]
        moments = [change - GUARD if change - GUARD > now else change for change in changes]
        seconds = OFTEN if self._adapting is not None else RECHECK
        return min([seconds, *((moment - now).total_seconds() for moment in moments)])


def _lowest(limit: Limit, now: datetime) -> int | None:
    """Return the lower of what holds now and what holds in a moment."""
    return min((each for each in (limit.at(now), limit.at(now + GUARD)) if each is not None), default=None)
