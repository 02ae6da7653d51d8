"""How objectives stand, as samples. They change slowly and take many reads: they are read once a minute at most."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from standfast.metrics import families as family
from standfast.metrics.aside import PATIENCE, Aside
from standfast.metrics.families import Sample
from standfast.objectives.published import published_objectives
from standfast.objectives.standing import Standing, read_standings
from standfast.store.asked import Asked
from standfast.store.errand import run_errand

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two reads."""

TOLD = 100
"""So many objectives are told, by name."""


class Goals:
    """The objectives in a store, as one process tells them. One thread at a time may ask."""

    def __init__(
        self, asked: Asked, monotonic: Callable[[], float] = time.monotonic, patience: float = PATIENCE
    ) -> None:
        self._asked = asked
        self._read_aside = Aside(self._read, every=EVERY, patience=patience, monotonic=monotonic)

    def samples(self) -> tuple[Sample, ...]:
        """Return how they stand, or stood about a minute ago; nothing while they are being read the first time."""
        try:
            return self._read_aside.latest() or ()
        except Exception as error:  # noqa: BLE001 - the rest is told without them
            log.warning("metrics: how objectives stand is not known: %s", error)
            return ()

    def _read(self) -> tuple[Sample, ...]:
        verbs, call = self._asked.verbs, self._asked.call
        objectives = run_errand(call, published_objectives(verbs))[:TOLD]
        standings = run_errand(call, read_standings(verbs, objectives))
        return tuple(goal_samples(standings))


def goal_samples(standings: Iterable[Standing]) -> Iterator[Sample]:
    """Yield what is told of each objective. All are gauges: what was good goes down again as days pass."""
    for each in standings:
        about = (each.objective.name,)
        yield Sample(family.GOAL_TARGET.name, about, each.objective.target)
        yield Sample(family.GOAL_GOOD.name, about, each.good)
        yield Sample(family.GOAL_BAD.name, about, each.bad)
        yield Sample(family.GOAL_BUDGET.name, about, each.budget_left)
        for window, burn in each.burns.items():
            yield Sample(family.GOAL_BURN.name, (*about, window), burn)
