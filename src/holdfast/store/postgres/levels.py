"""What this process knows of levels: the pairs of queue and priority that jobs have.

An enqueue has to see to it that the level of its jobs is in the table, or nobody would claim them; most of the time
it is known to be. A level is remembered once it was seen committed, and for a time only: after a failover that lost
the newest commits it might be gone. A claim wants to know whether priorities meet in its queues.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

REMEMBERED_FOR = 30.0
"""Seconds after which a level is looked for again."""

Level: TypeAlias = tuple[str, int]
"""A queue and a priority in it."""


class Levels:
    """The levels that this process has met. Any thread may use it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.forget()

    def forget(self) -> None:
        """Know nothing any more, as after the server was lost from sight."""
        self._seen_at: dict[Level, float] = {}
        self._met: defaultdict[str, set[int]] = defaultdict(set)
        self._asked = set[tuple[str, ...] | None]()

    def doubtful(self, levels: Iterable[Level]) -> list[Level]:
        """Return those of the levels of an enqueue that it has to see to, each once."""
        long_ago = self._monotonic() - REMEMBERED_FOR
        doubtful = [level for level in dict.fromkeys(levels) if self._seen_at.get(level, long_ago) <= long_ago]
        self._meet(doubtful)
        return doubtful

    def learn(self, levels: Iterable[Level]) -> None:
        """Note that an enqueue has seen these committed."""
        self._seen_at.update(dict.fromkeys(levels, self._monotonic()))

    def meet(self, queues: tuple[str, ...] | None, levels: Iterable[Level]) -> None:
        """Note which levels a claim has found in the queues that it asked for, None for every queue."""
        self._asked.add(queues)
        self._meet(levels)

    def are_apart(self, queues: tuple[str, ...] | None) -> bool:
        """Tell whether none of these queues has jobs of different priorities, as far as claims have seen."""
        met = self._met.copy()
        named = met if queues is None else queues
        return queues in self._asked and all(len(met.get(queue, ())) <= 1 for queue in named)

    def _meet(self, levels: Iterable[Level]) -> None:
        for queue, priority in levels:
            self._met[queue].add(priority)
