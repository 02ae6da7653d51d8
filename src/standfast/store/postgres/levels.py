"""What this process knows of levels: the pairs of queue and priority that jobs have.

An enqueue has to see to it that the level of its jobs is in the table, or nobody would claim them; most of the time
it is known to be. A level is remembered once it was seen committed, and for a time only: after a failover that lost
the newest commits it might be gone. A claim wants to know whether priorities meet in its queues.

Every claim looks at every level, so those that no job needs any more are forgotten, row by row (`forget_levels`):

    unmarked ──► marked since a time ──► marked, and waits for all transactions before an xid ──► deleted

A level is needed by jobs that are fresh, wait or are claimed. Jobs that are over need none: who revives one sees to
its level. A row is deleted only where no job that the statement sees needs it, or where the level has an unmarked
row. The danger is a job that this statement does not see yet, and that brings no row of its own:

    Its enqueuer looked for the level when all rows were marked, or may have looked at an old snapshot
                    Then it has inserted an unmarked row together with the job.
    It remembered the level from a look before the last row was marked
                    It may do so for REMEMBERED_FOR. The row is marked for ten times as long before it goes on to
                    the next step, and from then on waits for all transactions that had begun. So that enqueue has
                    committed, and its job is seen, or it was rolled back.
    It remembered the level from a look at an unmarked row
                    That row is there, or was marked later: see above.
    The job comes back: from a claim, a pause, a block
                    It was claimed, or waited, in the eyes of the statement: one statement moves a job, and each
                    looks at one moment.

What remains is a process that stands still for minutes between its decision and its message, or an enqueuer of a
release that does not know marks: its job is found by the next claim that walks everything (marks.py), which makes
the level anew.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

REMEMBERED_FOR = 30.0
"""Seconds after which a level is looked for again."""

MARKED_FOR = 300
"""Seconds for which a level that no job needs is marked before it may be forgotten."""

MOST_LEVELS = 100
"""Up to so many levels none is forgotten: claims are quick, and they may be needed again."""

MANY_LEVELS = 1000
"""More than so many are worth a warning."""

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
        now = self._monotonic()
        if len(self._seen_at) > MANY_LEVELS:
            seen_at = self._seen_at.copy().items()
            self._seen_at = {level: seen for level, seen in seen_at if seen > now - REMEMBERED_FOR}
        self._seen_at.update(dict.fromkeys(levels, now))

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
