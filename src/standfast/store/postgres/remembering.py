"""What one process remembers of its server from call to call, to ask for less."""

from collections.abc import Mapping

from standfast.clock import Clock
from standfast.store.postgres.expected import Expectations
from standfast.store.postgres.levels import Levels
from standfast.store.postgres.marks import Marks
from standfast.store.postgres.verbs import PostgresVerbs
from standfast.store.protocol import ClaimRequest

_MOST_PAST = 100
"""So many sets of closed tasks are remembered."""


class RememberingVerbs(PostgresVerbs):
    """Base of the verbs that remember. Nothing of it is needed to be right: it may be forgotten at any moment."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None, marks: Marks | None = None) -> None:
        super().__init__(statements, clock)
        self._levels = Levels()
        self._marks = marks or Marks()
        self._marks_past: dict[tuple[str, ...], Marks] = {}
        self._expectations = Expectations()
        self._marks_of_looks = Marks()

    def forget_server(self) -> None:
        """Forget everything: after an error, or on a new connection, it may be another server that answers."""
        self._levels.forget()
        self._marks.forget()
        self._marks_past.clear()
        self._marks_of_looks.forget()

    def _marks_for(self, request: ClaimRequest) -> Marks:
        """Return the marks for a claim: where tasks are closed, marks of its own, which go past their jobs."""
        if not request.closed_tasks:
            return self._marks
        if len(self._marks_past) >= _MOST_PAST:
            self._marks_past.clear()
        return self._marks_past.setdefault(request.closed_tasks, Marks())
