"""Claims taken back from their worker: those it never named, and all those of a dead one.

Why this is safe against beats and claims is argued in supervision_verbs.py.
"""

from holdfast.core.crash import Aftermath, Death, DeathKind, Orphan, aftermath
from holdfast.core.job import ClaimRef
from holdfast.core.states import MOVES, STARTED_ITS_LAST, Move, State
from holdfast.store.protocol import WorkerBeat
from holdfast.store.sqlite.ending import End, EndedBy, write_end
from holdfast.store.sqlite.rows import ClaimedRow
from holdfast.store.sqlite.verbs import SqliteVerbs
from holdfast.store.verb import Access, Command, Query, Steps, verb

_CHARGED_ALONE = "crashed"
_UNHARMED = Move.RELEASE.value


class BurialVerbs(SqliteVerbs):
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        now = self._now()
        claims = yield from self._claims_of(beat.worker)
        unnamed = [row for row in claims if row.call <= beat.closed_call and row.ref not in beat.held]
        for row in unnamed:
            yield from write_end(self._sql, _release(row), now)
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
        crashes = dict((yield Query(self._sql["crashes_alone"], (worker, _CHARGED_ALONE))))
        fates = aftermath(death, [_orphan(row, crashes.get(row.id, 0)) for row in claims.values()])
        for fate in fates:
            yield from write_end(self._sql, _end(claims[fate.ref], fate, death.evidence), now)
        return tuple(claims)

    def _claims_of(self, worker: str) -> Steps[list[ClaimedRow]]:
        rows = yield Query(self._sql["claims_of"], (worker,))
        return [ClaimedRow(*row) for row in rows]


def _release(row: ClaimedRow) -> End:
    move = row.settle(Move.RELEASE)
    rule = MOVES[move]
    error = STARTED_ITS_LAST if move is Move.DIE else None
    row = row._replace(attempt=row.attempt + rule.charges, error=error or row.error)
    return End(row, rule.target, move.value, EndedBy.RECONCILE, row.reason_of(rule.target), attempt_error=error)


def _orphan(row: ClaimedRow, crashes_alone: int) -> Orphan:
    return Orphan(
        ref=row.ref,
        state=State(row.state),
        attempt=row.attempt,
        crashes=row.crashes,
        max_attempts=row.max_attempts,
        alone=bool(row.alone),
        cancel_requested=bool(row.cancel_requested),
        replaced=bool(row.replaced),
        crashes_alone=crashes_alone,
    )


def _end(row: ClaimedRow, fate: Aftermath, evidence: str) -> End:
    row = row._replace(
        attempt=fate.attempt,
        crashes=fate.crashes,
        alone=int(fate.alone),
        error=(evidence or STARTED_ITS_LAST) if fate.state is State.DEAD else row.error,
    )
    harm = None if fate.how == _UNHARMED else evidence
    return End(row, fate.state, fate.how, EndedBy.BURIAL, row.reason_of(fate.state), attempt_error=harm)
