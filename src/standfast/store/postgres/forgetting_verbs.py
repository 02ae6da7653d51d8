"""Forgetting jobs that are over, a stretch of all that have ended at a time.

A round goes from the oldest outcome to the first stretch in which all are too young; then the next one begins.
What was forgotten stays in the way, in table and index, as long as a report or a dump goes on that began before: so
a round begins where the one before has met the first outcome. Now and then one begins at the very beginning, as an
old id may come late.
"""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from standfast.clock import Clock
from standfast.store.postgres.verbs import PostgresVerbs
from standfast.store.times import span_to_micros
from standfast.store.verb import Access, Last, Query, Steps, verb

STRETCH = 2000
"""So many outcomes are looked at in one call, so that many that stay do not make it long."""

WHOLE_ROUND_EVERY = 60
"""One in so many rounds begins at the very beginning."""

_BEGINNING = str(UUID(int=0))


class ForgettingVerbs(PostgresVerbs):
    """The verbs by which finished jobs go. Each process remembers for itself where its next stretch begins."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None) -> None:
        super().__init__(statements, clock)
        self._rounds = 0
        self._front = _BEGINNING
        self._looked_up_to: str | None = None
        self._dead_up_to: str | None = None

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        """Forget at most `limit` jobs that completed or were cancelled longer than `age` ago; return how many."""
        is_new_round = self._looked_up_to is None
        start = self._looked_up_to or self._begin_round()
        asked = (self._given_now(), span_to_micros(age), start, STRETCH, limit)
        [(gone, first, self._looked_up_to)] = yield Last(Query(self._sql["forget_jobs"], asked))
        if is_new_round:
            self._front = first or _BEGINNING
        return int(gone)

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> Steps[int]:
        """Forget at most `limit` dead jobs older than `keep`, or all but so many; return how many."""
        if isinstance(keep, int):
            [(gone,)] = yield Last(Query(self._sql["forget_surplus_dead"], (keep, limit)))
        else:
            start = self._dead_up_to or _BEGINNING
            asked = (self._given_now(), span_to_micros(keep), start, STRETCH, limit)
            [(gone, self._dead_up_to)] = yield Last(Query(self._sql["forget_dead"], asked))
        return int(gone)

    def _begin_round(self) -> str:
        is_whole = self._rounds % WHOLE_ROUND_EVERY == 0
        self._rounds += 1
        return _BEGINNING if is_whole else self._front
