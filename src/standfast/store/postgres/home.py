"""What a transaction of the user's own has to know of the store that takes part in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from standfast.store.postgres.address import Address
from standfast.store.verb import Access, Query, Steps, Tone, Verb

Place = tuple[str, str]
"""A database, and since when its server runs."""


@dataclass(slots=True, eq=False)
class Home:
    """Where the jobs are, how to make that place ready, and how to ask it and to ring its bell."""

    address: Address
    statements: Mapping[str, str]
    channels: Mapping[Tone, str]
    """What to NOTIFY for each tone."""
    prepare: Callable[[], None]
    """Makes the schema ready on a connection of our own; cheap where nothing is to be done."""
    is_prepared: Callable[[], bool]
    run: Callable[[Verb[Any]], Any]
    """Runs a verb on a connection of our own."""
    known: WeakSet[Any] = field(default_factory=WeakSet, init=False)
    """The connections of drivers that were found to lead here."""
    _place: Place | None = field(default=None, init=False)

    def place(self, other: Place) -> Place:
        """Return where the jobs are. If that was another place, ask again: the server may have been restarted."""
        if self._place is None or self._place != other:
            self._place = self.run(Verb("surroundings", Access.READ, self._surroundings()))
        return self._place

    def _surroundings(self) -> Steps[Place]:
        [(database, since)] = yield Query(self.statements["surroundings"])
        return database, since
