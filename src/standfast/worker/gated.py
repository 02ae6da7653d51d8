"""The slots and timers of a worker that has gates. One without goes by the plain ones, and pays nothing for these.

due ─► its gates have room? ─► started
            │ no
            ├─► waits at the gate, where it is short ─► started, or given back after a second, or sooner
            └─► given back

What is held for later goes back before its time where a gate will be full then, as it does for want of a slot.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

from standfast.core.job import Claim
from standfast.worker.booking import crowded_out
from standfast.worker.control import Control
from standfast.worker.gates import Gate, Gates
from standfast.worker.slots import Slots
from standfast.worker.timers import CHECK, PATIENCE, SHORT_PATIENCE, Timers


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
