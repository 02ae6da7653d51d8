"""Beats, and the end of workers. Two files, two write locks; here is why that is safe.

State of a worker:
    registered (a row in standfast_worker, jobs file) ──► condemned (mark in standfast_beat) ──► buried (row marked)
    A supervisor that saw its child die buries without the mark.

What each verb holds:
    claim, finish, register, bury   the write lock of the jobs file
    beat, condemn                   the write lock of the beats file, taken before anything else is read; they only
                                    read the jobs file, in a snapshot that is therefore younger than the lock

Facts that follow from the statements:
    F1  A mark is never undone: a beat changes only unmarked rows. A row of standfast_beat disappears only in a
        sweep that finds no living worker row.
    F2  A worker row, once marked as buried, stays so: a late registration finds it and changes nothing.
    F3  A sweep never takes the row of a living worker. It sees a beat row only if that was committed before the
        lock was taken; the registration preceded it; and the sweep's view of the jobs file is younger still.

Interleavings:
    beat × condemn  One lock. If the beat is first, the age is fresh and condemn spares the worker; if the mark is
                    first, the beat is refused. `condemn` judges the age under the lock, never before it.
    beat × bury     A vanished worker is buried only with the mark, and by F1 no beat after the mark is accepted. A
                    beat that read the worker row just before a burial seen by the supervisor commits as if it came
                    first, which it did; the next one finds no row and is refused.
    claim × bury    One lock. A claim before is given back by the burial, a claim after finds no row and is refused.
    claim × condemn A condemned worker may still claim; the burial that must follow gives it back (see above).
    bury × condemn  bury reads the mark through its read-only view of the beats file, which may be old. By F1 a mark
                    seen is still there, so a burial is never wrong. An old view may lack a fresh mark; but the view
                    opens only when a verb of the group first reads it, after every verb of the group was submitted
                    (see group.py), so who condemns and then buries always finds the mark.
    bury × bury     One lock; the second finds no row and does nothing.
    never beaten    condemn inserts the marked row itself, judging the age from the registration.
    crash between condemn and bury: the mark stays, every beat of others reports the worker as expired, and whoever
                    reads that finishes the burial.
    beats file lost Workers without a row are aged from their registration: at worst they are buried too early for
                    their taste, and are told so by their next beat or claim. No claim is ever doubled by it.
    another boot    Signs of life of another boot are as good as none (lease.py).
"""

from collections.abc import Sequence
from itertools import starmap

from standfast.core.job import KnownTask
from standfast.core.vitals import write_vitals
from standfast.store.held import HeldRow, claims_held
from standfast.store.protocol import BURIED_KEPT, BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo
from standfast.store.roster import Member, turns
from standfast.store.sqlite.lease import Lease
from standfast.store.sqlite.rows import read_list
from standfast.store.sqlite.verbs import SqliteVerbs, to_json
from standfast.store.times import (
    from_micros_or_none,
    span_from_micros,
    span_to_micros,
    to_micros,
    to_micros_or_none,
)
from standfast.store.verb import Access, Bulk, Command, Query, Steps, verb


class SupervisionVerbs(SqliteVerbs):
    """Register, beat, condemn, forget results."""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> Steps[None]:
        """Make the worker known and alive from now on."""
        who = (worker.id, worker.supervisor, worker.host, worker.pid, to_json(worker.queues), worker.concurrency)
        life = (self._now(), span_to_micros(worker.lease), self._boot(), self._boot_id)
        yield Command(self._sql["forget_buried"], (self._now() - span_to_micros(BURIED_KEPT),))
        yield Command(self._sql["register"], who + life)

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> Steps[BeatAnswer]:
        """Renew leases: refused to a condemned or unregistered worker, granted to any other, however late."""
        boot, now = self._boot(), self._clock.now()
        lives = [
            (beat.worker, boot, self._boot_id, to_micros_or_none(beat.polled_at), write_vitals(beat.vitals))
            for beat in beats
        ]
        yield Bulk(self._sql["beat"], lives)
        yield Command(self._sql["forget_dead_beats"])
        leases = yield from self._leases()
        calling = {beat.worker for beat in beats}
        accepted = {lease.worker for lease in leases if lease.worker in calling and not lease.condemned}
        others = [lease for lease in leases if lease.worker not in calling]
        living = [lease for lease in leases if not lease.is_over(boot, self._boot_id)]
        left = [lease.left(boot) for lease in living if lease.worker not in calling]
        held = yield Query(self._sql["claims_of_many"], (to_json(accepted),))
        claims = claims_held([beat for beat in beats if beat.worker in accepted], starmap(HeldRow, held))
        paused = yield Query(self._sql["paused_queues"])
        blocked = yield Query(self._sql["unknown_tasks"])
        suspects = yield Query(self._sql["due_suspects"], (to_micros(now),))
        [(record_due_at,)] = yield Query(self._sql["next_record"])
        return BeatAnswer(
            accepted=frozenset(accepted),
            now=now,
            revoked=claims.revoked,
            replaced=claims.replaced,
            paused=frozenset(queue for queue, _ in paused),
            unnamed=claims.unnamed,
            expired=frozenset(lease.worker for lease in others if lease.is_over(boot, self._boot_id)),
            next_expiry=min(map(span_from_micros, left), default=None),
            blocked=frozenset(KnownTask(task, version) for task, version in blocked),
            suspects=frozenset(starmap(DueSuspects, suspects)),
            turns=turns(accepted, map(_member, living)),
            record_due_at=from_micros_or_none(record_due_at),
        )

    @verb(Access.BEAT)
    def condemn(self, workers: frozenset[str]) -> Steps[frozenset[str]]:
        """Mark those dead whose lease has run out *now*, atomically against their beats."""
        boot = self._boot()
        leases = yield from self._leases()
        over = [lease for lease in leases if lease.worker in workers and lease.is_over(boot, self._boot_id)]
        yield Bulk(self._sql["condemn"], [(lease.worker, lease.beat_at, lease.boot_id) for lease in over])
        return frozenset(lease.worker for lease in over)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> Steps[int]:
        """Forget at most `limit` results whose time is over, for good; return how many."""
        faded = yield Query(self._sql["faded"], (self._now(), limit))
        forgotten: int = (yield Bulk(self._sql["forget_result"], faded)) if faded else 0
        return forgotten

    def _leases(self) -> Steps[list[Lease]]:
        rows = yield Query(self._sql["leases"])
        return [Lease(*row) for row in rows]


def _member(lease: Lease) -> Member:
    queues = None if lease.queues is None else read_list(lease.queues)
    return Member(lease.worker, queues, from_micros_or_none(lease.polled_at))
