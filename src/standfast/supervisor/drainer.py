"""Drains children: one takes nothing more, ends what it runs, leaves, and its place stays empty.

    ordered ─► it drains ─► gone: its place stays empty ─► and so do all places: the supervisor ends
                  └─────────────────┴─► a reload, or an order to recycle: the places are filled again

Who comes last decides what becomes of a place: a child that was to relieve one that is drained leaves with it.
"""

from collections.abc import Sequence
from typing import Protocol

from standfast.events import Events, WorkerDrained, WorkerDraining
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.orders import RefusedError
from standfast.supervisor.place import Place

ORDER = "drain"
"""What an order says by which a worker is to leave, and none to take its place."""


class Crew(Protocol):
    """The children of a supervisor, as far as they can be drained."""

    @property
    def stopping(self) -> bool:
        """Whether all are to leave."""
        ...

    @property
    def places(self) -> Sequence[Place]:
        """All places, kept or not."""
        ...

    def children(self) -> Sequence[Child]:
        """Return all of them."""
        ...

    def let_go(self, child: Child, within: float) -> None:
        """Ask a child to leave, and let it finish within this many seconds."""
        ...

    def begin_stop(self) -> None:
        """Ask all to leave, if there are any, and end."""
        ...


class Drainer:
    """Drains the children of one supervisor, and ends it with the last of them."""

    def __init__(self, crew: Crew, events: Events) -> None:
        self._crew = crew
        self._events = events
        self._ends = False
        """Whether it has ended the supervisor: a child that ended at the same time may still be given back."""

    def drain(self, worker: str, within: float) -> None:
        """Let a child finish within this many seconds, and start none in its place. Raises RefusedError."""
        child = next((each for each in self._crew.children() if each.worker == worker), None)
        if child is None or self._crew.stopping:
            return
        if child.place is None:
            raise RefusedError("it is there for suspects of a crash, and leaves by itself after them")
        if not child.process.killable:
            raise RefusedError("a worker inside a web process is stopped with its host")
        if child.place.drained:
            return
        child.place.kept.clear()
        child.place.told_empty = False
        self._events.emit(WorkerDraining(child.worker, child.process.pid))
        for each in self._children_in(child.place):
            if each.phase is Phase.STARTING:
                each.kill_to_stop()
            elif each.phase is Phase.WORKING:
                self._crew.let_go(each, within)

    def fill(self) -> None:
        """Have a child started in every place that was drained."""
        for place in self._crew.places:
            place.kept.set()

    def gone(self, child: Child) -> None:
        """Say that the place of a child that has ended stays empty, if it does; end where all of them do."""
        if self._crew.stopping and not self._ends:
            return
        place, kept = child.place, sum(not each.drained for each in self._crew.places)
        if place is not None and place.drained and not (place.told_empty or self._children_in(place)):
            place.told_empty = True
            self._events.emit(WorkerDrained(child.worker, child.process.pid, kept))
        if not (kept or self._ends or self._crew.children()):
            self._ends = True
            self._crew.begin_stop()

    def _children_in(self, place: Place) -> list[Child]:
        return [child for child in self._crew.children() if child.place is place]
