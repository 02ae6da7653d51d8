"""Claims taken back from their worker: those it never named, and all those of a dead one.

Why this is safe against beats and claims is argued in supervision_verbs.py. A burial is two scripts: the first
reads what the dead worker left, `crash.aftermath` decides, and the second does it, all or nothing, if what it finds
is what the first one saw. Else it begins anew: somebody asked for a cancellation, or a late claim or ending came in
between.
"""

from typing import Any

from standfast.core.crash import Aftermath, Death, DeathKind, Orphan, aftermath
from standfast.core.job import ClaimRef
from standfast.core.states import STARTED_ITS_LAST, State
from standfast.store.protocol import WorkerBeat
from standfast.store.redis.packing import pack
from standfast.store.redis.rows import Row, fences, pairs, to_ref
from standfast.store.verb import Access, Script, Steps, verb


class BurialVerbs:
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        """Release the worker's claims of calls up to `closed_call` that it does not name; return them."""
        flat = yield Script("reconcile", (beat.worker, beat.closed_call, pack(fences(beat.held))))
        return tuple(to_ref(job_id, fence) for job_id, fence in pairs(flat))

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> Steps[tuple[ClaimRef, ...]]:
        """Remove the worker and give back all its claims as `crash.aftermath` says; return them."""
        must_be_condemned = int(death.kind is DeathKind.VANISHED)
        while True:
            seen = yield Script("orphans", (worker, must_be_condemned))
            if seen is None:
                return ()
            fingerprint, rows = seen
            fates = aftermath(death, [_orphan(row) for row in rows])
            said = pack([_row(fate, death.evidence) for fate in fates])
            if (yield Script("bury", (worker, must_be_condemned, fingerprint, said))):
                return tuple(fate.ref for fate in fates)


def _orphan(row: Row) -> Orphan:
    job_id, fence, state, attempt, crashes, max_attempts, group, cancel_requested, crashes_alone, replaced = row
    return Orphan(
        ref=to_ref(job_id, fence),
        state=State(state.decode()),
        attempt=attempt,
        crashes=crashes,
        max_attempts=max_attempts,
        group=group,
        cancel_requested=bool(cancel_requested),
        crashes_alone=crashes_alone,
        replaced=bool(replaced),
    )


def _row(fate: Aftermath, evidence: str) -> tuple[Any, ...]:
    numbers, harm = (fate.attempt, fate.crashes, fate.group), fate.harm(evidence)
    return (fate.ref.job_id, fate.state.value, fate.how, *numbers, harm, evidence or STARTED_ITS_LAST)
