"""Forgetting jobs that are over, a stretch of all jobs at a time, and dead ones, a stretch of these."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from standfast.clock import Clock
from standfast.store.sql_rows import Row
from standfast.store.sqlite.verbs import SqliteVerbs, to_json
from standfast.store.times import span_to_micros
from standfast.store.verb import Access, Bulk, Command, Query, Steps, verb

STRETCH = 5000
"""So many jobs are looked at in one call, so that many that stay do not make it long."""


class ForgettingVerbs(SqliteVerbs):
    """The verbs by which finished jobs go. Each process remembers for itself where its next stretch begins."""

    def __init__(self, statements: Mapping[str, str], clock: Clock) -> None:
        super().__init__(statements, clock)
        self._looked_up_to = 0
        self._dead_up_to = ""

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        """Forget at most `limit` jobs that completed or were cancelled longer than `age` ago; return how many."""
        start, now = self._looked_up_to, self._now()
        [(end, looked_at)] = yield Query(self._sql["stretch_end"], (start, STRETCH))
        over = yield Query(self._sql["over"], (start, now - span_to_micros(age), now, STRETCH, limit))
        yield from self._forget_with_all(over)
        # If not all of the stretch was seen to, it is looked at again; after the last one the first is next.
        if len(over) < limit:
            self._looked_up_to = end if looked_at == STRETCH else 0
        return len(over)

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> Steps[int]:
        """Forget at most `limit` dead jobs older than `keep`, or all but so many; return how many."""
        if isinstance(keep, int):
            over = yield Query(self._sql["surplus_dead"], (keep, limit))
            yield from self._forget_with_all(over)
            return len(over)
        start, long_ago = self._dead_up_to, self._now() - span_to_micros(keep)
        over = yield Query(self._sql["old_dead"], (start, long_ago, STRETCH, limit))
        if len(over) < limit:
            [(end, looked_at, created_at)] = yield Query(self._sql["dead_stretch_end"], (start, STRETCH))
            # Behind one that came later than that, all came later, and died later still.
            self._dead_up_to = end if looked_at == STRETCH and created_at <= long_ago else ""
        yield from self._forget_with_all(over)
        return len(over)

    def _forget_with_all(self, over: Sequence[Row]) -> Steps[None]:
        jobs = [(seq, job_id) for seq, job_id, _, _ in over]
        yield Bulk(self._sql["forget_tags"], jobs)
        yield Bulk(self._sql["forget_fading"], jobs)
        yield Bulk(self._sql["forget_key"], [(task, key, job_id) for _, job_id, task, key in over])
        yield Bulk(self._sql["forget_attempts"], [(seq,) for seq, _ in jobs])
        yield Bulk(self._sql["forget_memos"], [(seq,) for seq, _ in jobs])
        yield Command(self._sql["shrink"], (to_json([seq for seq, _ in jobs]),))
        yield Bulk(self._sql["forget_job"], [(seq,) for seq, _ in jobs])
