"""Forgetting jobs that are over, a stretch of all jobs at a time."""

from collections.abc import Mapping
from datetime import timedelta

from holdfast.clock import Clock
from holdfast.store.sqlite.verbs import SqliteVerbs, to_json
from holdfast.store.times import span_to_micros
from holdfast.store.verb import Access, Bulk, Command, Query, Steps, verb

STRETCH = 5000
"""So many jobs are looked at in one call, so that many that stay do not make it long."""


class ForgettingVerbs(SqliteVerbs):
    """The verb by which finished jobs go. Each process remembers for itself where its next stretch begins."""

    def __init__(self, statements: Mapping[str, str], clock: Clock) -> None:
        super().__init__(statements, clock)
        self._looked_up_to = 0

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        """Forget at most `limit` jobs that completed or were cancelled longer than `age` ago; return how many."""
        start, now = self._looked_up_to, self._now()
        [(end, looked_at)] = yield Query(self._sql["stretch_end"], (start, STRETCH))
        over = yield Query(self._sql["over"], (start, now - span_to_micros(age), now, STRETCH, limit))
        jobs = [(seq, job_id) for seq, job_id, _, _ in over]
        yield Bulk(self._sql["forget_tags"], jobs)
        yield Bulk(self._sql["forget_fading"], jobs)
        yield Bulk(self._sql["forget_key"], [(task, key, job_id) for _, job_id, task, key in over])
        yield Bulk(self._sql["forget_attempts"], [(seq,) for seq, _ in jobs])
        yield Bulk(self._sql["forget_memos"], [(seq,) for seq, _ in jobs])
        yield Command(self._sql["shrink"], (to_json([seq for seq, _ in jobs]),))
        yield Bulk(self._sql["forget_job"], [(seq,) for seq, _ in jobs])
        # If not all of the stretch was seen to, it is looked at again; after the last one the first is next.
        if len(over) < limit:
            self._looked_up_to = end if looked_at == STRETCH else 0
        return len(over)
