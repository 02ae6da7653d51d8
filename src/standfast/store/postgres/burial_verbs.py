"""Claims taken back from their worker: those it never named, and all those of a dead one.

Why this is safe against beats and claims is argued in supervision_verbs.py.
"""

from collections.abc import Iterable, Mapping

from standfast.core.crash import CHARGED_ALONE, Aftermath, Death, DeathKind, aftermath
from standfast.core.job import ClaimRef
from standfast.store.claimed import ClaimedRow, buried, released
from standfast.store.postgres.ending import columns, ends
from standfast.store.postgres.verbs import PostgresVerbs
from standfast.store.protocol import WorkerBeat
from standfast.store.verb import Access, Command, Last, Query, Steps, Together, verb


class BurialVerbs(PostgresVerbs):
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        named = columns(beat.held) if beat.held else ((), ())
        rows = yield Query(self._sql["unnamed_claims"], (self._given_now(), beat.worker, beat.closed_call, *named))
        if not rows:
            return ()
        [(now, *_), *_] = rows
        unnamed = sorted(ClaimedRow(*row) for _, *row in rows)
        yield Last(Together(ends(self._sql, [released(row) for row in unnamed], now)))
        return tuple(row.ref for row in unnamed)

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> Steps[tuple[ClaimRef, ...]]:
        """Remove the worker and give back all its claims as `crash.aftermath` says; return them."""
        must_be_condemned = death.kind is DeathKind.VANISHED
        gone = yield Query(self._sql["unregister"], (self._given_now(), worker, must_be_condemned))
        if not gone:
            return ()
        [(now,)] = gone
        rows = yield Query(self._sql["claims_of"], (worker, CHARGED_ALONE))
        groups = dict((yield Query(self._sql["groups_of"], (worker,))))
        orphans = sorted((_in_group(ClaimedRow(*row), groups), crashes_alone) for crashes_alone, *row in rows)
        claims = {row.ref: row for row, _ in orphans}
        fates = aftermath(death, [row.orphaned(crashes_alone) for row, crashes_alone in orphans])
        ended = [buried(claims[fate.ref], fate, death.evidence) for fate in fates]
        yield Last(Together([*ends(self._sql, ended, now), *self._group(claims, fates)]))
        return tuple(claims)

    def _group(self, claims: Mapping[ClaimRef, ClaimedRow], fates: Iterable[Aftermath]) -> list[Command]:
        """Return what notes the groups of those whose group is another than before."""
        news = [(fate.ref.job_id, fate.group) for fate in fates if fate.group not in {0, claims[fate.ref].group}]
        return [Command(self._sql["group"], columns(sorted(news)))] if news else []


def _in_group(row: ClaimedRow, groups: Mapping[str, int]) -> ClaimedRow:
    return row._replace(group=groups.get(row.id, 1) if row.group else 0)
