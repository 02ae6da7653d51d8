"""The gates of a worker: how many of which jobs run here, and how many more may.

Each limit that an app declares, of a queue, a task or by a name, is a gate, and a job counts at each that it goes
through. A gate that is full is *closed* to claims: its queue or its tasks are named in them, and the store gives
others in their stead, also from behind. So nothing waits here that another worker could run.

What is claimed before that is known, and finds a gate full, goes back. But where attempts are so short that a claim
for each of them would take longer than they do, some may *wait* at the gate: no more than will have gone through
within a tenth of a second.

    open ──(no room)──► closed to claims ──(half of those that wait are gone)──► open: the claimer looks
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from standfast.core.job import Claim
from standfast.gates.limit import Limit
from standfast.gates.limits import Limits
from standfast.store.protocol import ClaimRequest

HORIZON = 0.1
"""Seconds of work that may wait at a gate."""

LEARNING = 0.2
"""How much each attempt that ends tells about how long the next ones last."""

MOST_WAITING = 500

REST = 4.0
"""How much longer than it took more than others the store is left alone after a claim that passed over many."""

LONGEST_REST = 0.5
_NOT_WORTH_IT = 0.002
_SHORTEST = 0.0001


class Gate:
    """One gate."""

    def __init__(self, about: str, name: str, limit: Limit, most: int) -> None:
        self.about = about
        self.name = name
        self.limit = limit
        self.most = most
        """How many may run at a time now."""
        self.taken = 0
        """How many run."""
        self.waiting = 0
        """How many claims wait here."""
        self.turned_away = False
        """Whether a claim has lately brought more than there was room for."""
        self.passed_over = False
        """Whether a claim has passed over its jobs, so that there may be some to find."""
        self.lasts: float | None = None
        """Seconds that one is inside, as those that left of late were."""

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
