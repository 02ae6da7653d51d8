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

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import starmap

from standfast.model.clock import Clock
from standfast.model.crash import CHARGED_ALONE, Death, DeathKind, aftermath
from standfast.model.job import ClaimRef, KnownTask
from standfast.stores.claims import ClaimedRow, HeldRow, Member, buried, claims_held, released, turns
from standfast.stores.rows import (
    from_micros_or_none,
    span_from_micros,
    span_to_micros,
    to_micros,
    to_micros_or_none,
)
from standfast.stores.sqlite.finish import write_end
from standfast.stores.sqlite.statements import Lease, SqliteVerbs, read_list, to_json
from standfast.stores.statements import Row
from standfast.stores.values import BURIED_KEPT, BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo, write_vitals
from standfast.stores.verb import Access, Bulk, Command, Query, Steps, verb


class SupervisionVerbs(SqliteVerbs):
    """Register, beat, condemn, forget results."""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> Steps[None]:
        who = (worker.id, worker.supervisor, worker.host, worker.pid, to_json(worker.queues), worker.concurrency)
        life = (self._now(), span_to_micros(worker.lease), self._boot(), self._boot_id)
        yield Command(self._sql["forget_buried"], (self._now() - span_to_micros(BURIED_KEPT),))
        yield Command(self._sql["register"], who + life)

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> Steps[BeatAnswer]:
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
        boot = self._boot()
        leases = yield from self._leases()
        over = [lease for lease in leases if lease.worker in workers and lease.is_over(boot, self._boot_id)]
        yield Bulk(self._sql["condemn"], [(lease.worker, lease.beat_at, lease.boot_id) for lease in over])
        return frozenset(lease.worker for lease in over)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> Steps[int]:
        faded = yield Query(self._sql["faded"], (self._now(), limit))
        forgotten: int = (yield Bulk(self._sql["forget_result"], faded)) if faded else 0
        return forgotten

    def _leases(self) -> Steps[list[Lease]]:
        rows = yield Query(self._sql["leases"])
        return [Lease(*row) for row in rows]


def _member(lease: Lease) -> Member:
    queues = None if lease.queues is None else read_list(lease.queues)
    return Member(lease.worker, queues, from_micros_or_none(lease.polled_at))


# Claims taken back from their worker: those it never named, and all those of a dead one.
#
# Why this is safe against beats and claims is argued in supervision_verbs.py.


class BurialVerbs(SqliteVerbs):
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
        now = self._now()
        claims = yield from self._claims_of(beat.worker)
        unnamed = [row for row in claims if row.call <= beat.closed_call and row.ref not in beat.held]
        for row in unnamed:
            yield from write_end(self._sql, released(row), now)
        return tuple(row.ref for row in unnamed)

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> Steps[tuple[ClaimRef, ...]]:
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


# Forgetting jobs that are over, a stretch of all jobs at a time, and dead ones, a stretch of these.

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
