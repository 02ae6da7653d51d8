"""Workers: their registration, their beats, the mark of the dead; and what is tidied up.

Each verb is one script, and the server runs one script at a time: so beats, claims, condemnations and burials never
meet halfway. `condemn` judges the lease in the same step in which it marks; a beat of a marked worker is refused; a
vanished worker is buried only with the mark; and from its burial on the worker is not registered, which claims and
beats look at in their own step.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from standfast.errors import ValueNotStoredError
from standfast.model.crash import Aftermath, Death, DeathKind, Orphan, aftermath
from standfast.model.job import ClaimRef
from standfast.model.records import Kind
from standfast.model.states import STARTED_ITS_LAST, State
from standfast.stores.redis.engine import FORMAT
from standfast.stores.redis.rows import (
    Row,
    fences,
    group_of,
    pack,
    pairs,
    to_ref,
    to_task,
    to_time,
    to_turn,
    write_registration,
)
from standfast.stores.rows import from_micros, span_from_micros, span_to_micros, to_micros_or_none
from standfast.stores.values import BURIED_KEPT, BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo, write_vitals
from standfast.stores.verb import Access, Script, Steps, verb

LONGEST_LEASE = timedelta(days=36_500)
"""The server counts micros in doubles, which tell times of the next centuries exactly."""

STRETCH = 500
"""So many dead jobs are looked at in one call, so that many that stay do not make it long."""

_KINDS_THAT_COME_DUE = pack([kind.value for kind in Kind if kind is not Kind.STORE])
"""As a beat asks for them; each costs it a command."""


class SupervisionVerbs:
    """Register, beat, condemn, forget results and jobs. Each process remembers which dead jobs it looks at next."""

    def __init__(self) -> None:
        super().__init__()
        self._dead_up_to = ""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> Steps[None]:
        if abs(worker.lease) > LONGEST_LEASE:
            raise ValueNotStoredError(f"Redis cannot store a lease of over {LONGEST_LEASE.days} days")
        spans = (span_to_micros(worker.lease), span_to_micros(BURIED_KEPT))
        said = write_registration(worker)
        yield Script("register", (worker.id, *spans, said, FORMAT, group_of(worker.queues)))

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> Steps[BeatAnswer]:
        named = [
            (
                beat.worker,
                beat.closed_call,
                fences(beat.held),
                to_micros_or_none(beat.polled_at),
                write_vitals(beat.vitals),
            )
            for beat in beats
        ]
        reply = yield Script("beat", (pack(named), _KINDS_THAT_COME_DUE))
        now, accepted, revoked, replaced, paused, unnamed, expired, next_expiry, unknown, suspects, *rest = reply
        turns, record_due_at = rest
        return BeatAnswer(
            accepted=_names(accepted),
            now=from_micros(int(now)),
            revoked=_refs_by_worker(revoked),
            replaced=_refs_by_worker(replaced),
            paused=_names(paused),
            unnamed=_names(unnamed),
            expired=_names(expired),
            next_expiry=None if next_expiry is None else span_from_micros(int(next_expiry)),
            blocked=frozenset(map(to_task, unknown)),
            suspects=frozenset(DueSuspects(queue.decode(), group, jobs) for queue, group, jobs in suspects),
            turns={worker.decode(): to_turn(*turn) for worker, *turn in turns},
            record_due_at=None if record_due_at is None else to_time(record_due_at),
        )

    @verb(Access.BEAT)
    def condemn(self, workers: frozenset[str]) -> Steps[frozenset[str]]:
        marked = yield Script("condemn", (pack(list(workers)),))
        return _names(marked)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> Steps[int]:
        forgotten: int = yield Script("forget_results", (limit,))
        return forgotten

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        forgotten: int = yield Script("forget_jobs", ("ended", span_to_micros(age), limit))
        return forgotten

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> Steps[int]:
        forgotten: int
        if isinstance(keep, int):
            forgotten = yield Script("forget_jobs", ("surplus_dead", keep, limit))
        else:
            asked = ("dead", span_to_micros(keep), limit, self._dead_up_to, STRETCH)
            forgotten, go_on = yield Script("forget_jobs", asked)
            self._dead_up_to = go_on.decode()
        return forgotten


def _names(words: Row) -> frozenset[str]:
    return frozenset(word.decode() for word in words)


def _refs_by_worker(flat: Row) -> dict[str, tuple[ClaimRef, ...]]:
    refs: defaultdict[str, list[ClaimRef]] = defaultdict(list)
    for worker, job_id, fence in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        refs[worker.decode()].append(to_ref(job_id, fence))
    return {worker: tuple(sorted(own)) for worker, own in refs.items()}


# Claims taken back from their worker: those it never named, and all those of a dead one.
#
# Why this is safe against beats and claims is argued in supervision_verbs.py. A burial is two scripts: the first
# reads what the dead worker left, `crash.aftermath` decides, and the second does it, all or nothing, if what it finds
# is what the first one saw. Else it begins anew: somebody asked for a cancellation, or a late claim or ending came in
# between.


class BurialVerbs:
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        flat = yield Script("reconcile", (beat.worker, beat.closed_call, pack(fences(beat.held))))
        return tuple(to_ref(job_id, fence) for job_id, fence in pairs(flat))

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> Steps[tuple[ClaimRef, ...]]:
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
