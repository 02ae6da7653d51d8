"""Claims taken back from their worker: those it never named, and all those of a dead one.

Why this is safe against beats and claims is argued in supervision_verbs.py.
"""

from standfast.core.crash import CHARGED_ALONE, Death, DeathKind, aftermath
from standfast.core.job import ClaimRef
from standfast.store.claimed import ClaimedRow, buried, released
from standfast.store.protocol import WorkerBeat
from standfast.store.sqlite.ending import write_end
from standfast.store.sqlite.verbs import SqliteVerbs
from standfast.store.verb import Access, Command, Query, Steps, verb


class BurialVerbs(SqliteVerbs):
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        now = self._now()
        claims = yield from self._claims_of(beat.worker)
        unnamed = [row for row in claims if row.call <= beat.closed_call and row.ref not in beat.held]
        for row in unnamed:
            yield from write_end(self._sql, released(row), now)
        return tuple(row.ref for row in unnamed)

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> Steps[tuple[ClaimRef, ...]]:
        """Remove the worker and give back all its claims as `crash.aftermath` says; return them."""
        if death.kind is DeathKind.VANISHED:
            [(condemned,)] = yield Query(self._sql["is_condemned"], (worker,))
            if not condemned:
                return ()
        now = self._now()
        if not (yield Command(self._sql["unregister"], (worker, now))):
            return ()
        claims = {row.ref: row for row in (yield from self._claims_of(worker))}
        crashes = dict((yield Query(self._sql["crashes_alone"], (worker, CHARGED_ALONE))))
        fates = aftermath(death, [row.orphaned(crashes.get(row.id, 0)) for row in claims.values()])
        for fate in fates:
            yield from write_end(self._sql, buried(claims[fate.ref], fate, death.evidence), now)
        return tuple(claims)

    def _claims_of(self, worker: str) -> Steps[list[ClaimedRow]]:
        rows = yield Query(self._sql["claims_of"], (worker,))
        return [ClaimedRow(*row) for row in rows]
