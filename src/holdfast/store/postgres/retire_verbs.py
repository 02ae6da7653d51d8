"""Forgetting jobs that are over, a stretch of all that have ended at a time."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from holdfast.clock import Clock
from holdfast.store.postgres.verbs import PostgresVerbs
from holdfast.store.times import span_to_micros
from holdfast.store.verb import Access, Last, Query, Steps, verb

STRETCH = 2000
"""So many jobs are looked at in one call, so that many that stay do not make it long."""

_BEGINNING = str(UUID(int=0))


class RetireVerbs(PostgresVerbs):
    """The verb by which finished jobs go. Each process remembers for itself where its next stretch begins."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None) -> None:
        super().__init__(statements, clock)
        self._looked_up_to: str | None = None

    @verb(Access.WRITE)
    def retire(self, age: timedelta, limit: int) -> Steps[int]:
        """Forget at most `limit` jobs that completed or were cancelled longer than `age` ago; return how many."""
        start = self._looked_up_to or _BEGINNING
        asked = (self._given_now(), span_to_micros(age), start, STRETCH, limit)
        [(gone, _, self._looked_up_to)] = yield Last(Query(self._sql["retire"], asked))
        return int(gone)
