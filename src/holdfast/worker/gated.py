"""The slots and timers of a worker that has gates. One without goes by the plain ones, and pays nothing for these.

due ─► its gates have room? ─► started
            │ no
            ├─► waits at the gate, where it is short ─► started, or given back after a second
            └─► given back
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.core.job import Claim
from holdfast.worker.control import Control
from holdfast.worker.gates import Gate, Gates
from holdfast.worker.slots import Slots
from holdfast.worker.timers import CHECK, PATIENCE, Timers


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


class GatedTimers(Timers):
    """Lets a claim start only where each of its gates has room."""

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

    def _start_due(self) -> None:
        for way, line in list(self._at_gates.items()):
            self._start_waiting(way, line)
        full: list[Claim] = []
        while self._due and self._slots.free > 0 and self._lease.fresh:
            _, claim = self._due.popleft()
            way = self._gates.way_of(claim)
            if way not in self._at_gates and not any(gate.is_full for gate in way):
                self._start(claim)
            elif all(gate.room > 0 for gate in way):
                self._at_gates.setdefault(way, deque()).append((self._clock.boot() + PATIENCE, claim))
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
        overdue = {claim.ref for line in self._at_gates.values() for until, claim in line if until <= boot}
        if overdue:
            for way in self._at_gates:
                for gate in way:
                    gate.kept_waiting(PATIENCE)
            self.give_back(lambda claim: claim.ref in overdue)

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
