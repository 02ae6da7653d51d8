"""Beats, and the end of workers. No lock but that of the worker's own row; here is why that is enough.

State of a worker:
    registered (a row in worker) ──► condemned (the same row, marked) ──► buried (no row; a line in buried)
    A supervisor that saw its child die buries without the mark.

What each verb does to the worker's row, in a transaction that is READ COMMITTED: each statement sees what was
committed before it began, and one that had to wait for a row looks at it again before it changes it.
    claim       FOR KEY SHARE, until its commit
    beat        UPDATE of beat_at, no key, if not condemned: does not wait for claims, nor they for it
    condemn     UPDATE of the mark, no key, if the lease has run out
    bury        DELETE, of a vanished worker only if condemned: waits for claims, beats and condemns under way;
                then, in a later statement, reads and locks the claims and gives them back
    register    INSERT, then, in a later statement, DELETE if the worker is among the buried

Facts that follow:
    F1  A mark is never undone: a beat changes unmarked rows only, and nothing takes a mark away.
    F2  Who is buried stays so, for as long as `buried` remembers it, which is longer than a call can be under way.

Interleavings:
    beat × condemn  One row. If the beat is first, condemn waits, looks again and spares the worker, whose age is
                    fresh; if the mark is first, the beat waits, looks again and is refused. The time by which
                    condemn judges is read before it waits: a beat that came meanwhile is younger than that.
    beat × bury     A vanished worker is buried only with the mark, and by F1 no beat after the mark is accepted. A
                    beat before a burial seen by the supervisor holds the row until its commit, so it came first;
                    one after waits, and finds no row.
    claim × bury    The burial's DELETE waits for a claim that holds the row; the statement after it began after
                    that claim's commit, so it sees its jobs and gives them back. (In the same statement it would
                    not: that one looks at the tables as they were when it began to wait.) A claim after the DELETE
                    waits, finds no row and is refused.
    claim × condemn Neither waits. A condemned worker may still claim; the burial that must follow gives it back.
    claim × beat    Neither waits.
    bury × bury     The second waits, finds no row and does nothing.
    bury × finish, cancel, enqueue (replacing), reconcile
                    All lock the claim's row before they decide, several in the order of their ids. Who comes second
                    finds it gone, or changed, and acts upon that.
    register × bury A second registration, which was under way for long, may meet the burial: before it, it finds
                    the row and changes nothing; after it, the later statement finds the name among the buried, and
                    takes the new row away before anyone saw it. While it goes on, the INSERT waits for the burial's
                    commit, and then it is after it.
    crash between condemn and bury: the mark stays, every beat of others reports the worker as expired, and whoever
                    reads that finishes the burial.
    sweep × sweep   Each takes what the other has not locked. Nobody waits.
    beat × register A beat notes in `poll` when its worker looked for work, and in `vitals` how it is, after it has
                    the worker's row; a registration forgets the notes about those who have none. A note of a beat
                    that came just before a burial may outlive it: it counts for nobody, and goes with the next
                    registration.
    Several workers in one beat or condemn: their rows are locked in the order of their names, so that none waits
                    for another in a circle.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import starmap
from typing import NamedTuple
from uuid import UUID

from standfast.model.clock import Clock
from standfast.model.crash import CHARGED_ALONE, Aftermath, Death, DeathKind, aftermath
from standfast.model.job import ClaimRef, KnownTask
from standfast.stores.claims import ClaimedRow, HeldRow, Member, buried, claims_held, released, turns
from standfast.stores.postgres.finish import columns, ends
from standfast.stores.postgres.rows import MARKED_FOR, MOST_LEVELS, PostgresVerbs
from standfast.stores.rows import from_micros, from_micros_or_none, span_from_micros, span_to_micros, to_micros
from standfast.stores.values import BURIED_KEPT, BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo, write_vitals
from standfast.stores.verb import Access, Command, Last, Query, Steps, Together, verb

TALLY_ROWS = 1000
"""How many counters may pile up before a sweep folds them."""


class _Lease(NamedTuple):
    """A worker's lease and its last sign of life, as `leases` selects them."""

    worker: str
    lease: int
    beat_at: int
    condemned: bool
    queues: Sequence[str] | None
    polled_at: int | None

    @property
    def member(self) -> Member:
        """The worker as turns look at it."""
        return Member(self.worker, self.queues, from_micros_or_none(self.polled_at))

    def left(self, now: int) -> int:
        """Return how long it still lasts; negative once it has run out."""
        return self.lease - (now - self.beat_at)

    def is_over(self, now: int) -> bool:
        """Tell whether it has run out, or the worker is condemned already."""
        return self.condemned or self.left(now) < 0


class SupervisionVerbs(PostgresVerbs):
    """Register, beat, condemn, forget results."""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> Steps[None]:
        given = self._given_now()
        queues = None if worker.queues is None else list(worker.queues)
        who = (worker.id, worker.supervisor, worker.host, worker.pid, queues, worker.concurrency)
        yield Last(
            Together(
                (
                    Command(self._sql["forget_buried"], (given, span_to_micros(BURIED_KEPT))),
                    Command(self._sql["forget_polls"]),
                    Command(self._sql["forget_vitals"]),
                    Command(self._sql["register"], (given, *who, span_to_micros(worker.lease))),
                    Command(self._sql["refuse_buried"], (worker.id,)),
                )
            )
        )

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> Steps[BeatAnswer]:
        given, calling = self._given_now(), [beat.worker for beat in beats]
        renewed, *_, signs, held, paused, blocked, suspects, [(record_due_at,)] = yield Last(
            Together(
                (
                    Query(self._sql["beat"], (given, calling)),
                    *self._polls(beats),
                    *self._vitals(beats),
                    Command(self._sql["mend_leases"], (given,)),
                    Query(self._sql["leases"], (given,)),
                    Query(self._sql["claims_of_many"], (calling,)),
                    Query(self._sql["paused_now"]),
                    Query(self._sql["unknown_tasks"]),
                    Query(self._sql["due_suspects"], (given,)),
                    Query(self._sql["next_record_due"]),
                )
            )
        )
        accepted = frozenset(worker for (worker,) in renewed)
        [(now, *_), *_] = signs
        leases = [_Lease(*sign) for _, *sign in signs if sign[0] is not None]
        others = [lease for lease in leases if lease.worker not in calling]
        left = [lease.left(now) for lease in others if not lease.is_over(now)]
        claims = claims_held([beat for beat in beats if beat.worker in accepted], starmap(HeldRow, held))
        return BeatAnswer(
            accepted=accepted,
            now=from_micros(now),
            revoked=claims.revoked,
            replaced=claims.replaced,
            paused=frozenset(queue for (queue,) in paused),
            unnamed=claims.unnamed,
            expired=frozenset(lease.worker for lease in others if lease.is_over(now)),
            next_expiry=min(map(span_from_micros, left), default=None),
            blocked=frozenset(starmap(KnownTask, blocked)),
            suspects=frozenset(starmap(DueSuspects, suspects)),
            turns=turns(accepted, (lease.member for lease in leases if not lease.is_over(now))),
            record_due_at=from_micros_or_none(record_due_at),
        )

    def _polls(self, beats: Sequence[WorkerBeat]) -> list[Command]:
        """Return what notes when workers looked for work, if there is news of that."""
        news = {beat.worker: to_micros(beat.polled_at) for beat in beats if beat.polled_at is not None}
        return [Command(self._sql["note_polls"], (list(news), list(news.values())))] if news else []

    def _vitals(self, beats: Sequence[WorkerBeat]) -> list[Command]:
        """Return what notes how workers are, if there is news of that."""
        news = {beat.worker: write_vitals(beat.vitals) for beat in beats if beat.vitals is not None}
        return [Command(self._sql["note_vitals"], (list(news), list(news.values())))] if news else []

    @verb(Access.BEAT)
    def condemn(self, workers: frozenset[str]) -> Steps[frozenset[str]]:
        marked = yield Last(Query(self._sql["condemn"], (self._given_now(), sorted(workers))))
        return frozenset(worker for (worker,) in marked)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> Steps[int]:
        """Forget at most `limit` results whose time is over, for good; return how many. Tidy up besides."""
        forgotten: int
        forgotten, *_ = yield Last(
            Together(
                (
                    Command(self._sql["sweep_results"], (self._given_now(), limit)),
                    Command(self._sql["fold_tally"], (TALLY_ROWS,)),
                    Command(self._sql["forget_levels"], (self._given_now(), MOST_LEVELS, MARKED_FOR * 1_000_000)),
                )
            )
        )
        return forgotten


# Claims taken back from their worker: those it never named, and all those of a dead one.
#
# Why this is safe against beats and claims is argued in supervision_verbs.py.


class BurialVerbs(PostgresVerbs):
    """Reconcile and bury."""

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> Steps[tuple[ClaimRef, ...]]:
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


# Forgetting jobs that are over, a stretch of all that have ended at a time.
#
# A round goes from the oldest outcome to the first stretch in which all are too young; then the next one begins.
# What was forgotten stays in the way, in table and index, as long as a report or a dump goes on that began before: so
# a round begins where the one before has met the first outcome. Now and then one begins at the very beginning, as an
# old id may come late.

STRETCH = 2000
"""So many outcomes are looked at in one call, so that many that stay do not make it long."""

WHOLE_ROUND_EVERY = 60
"""One in so many rounds begins at the very beginning."""

_BEGINNING = str(UUID(int=0))


class ForgettingVerbs(PostgresVerbs):
    """The verbs by which finished jobs go. Each process remembers for itself where its next stretch begins."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None) -> None:
        super().__init__(statements, clock)
        self._rounds = 0
        self._front = _BEGINNING
        self._looked_up_to: str | None = None
        self._dead_up_to: str | None = None

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> Steps[int]:
        is_new_round = self._looked_up_to is None
        start = self._looked_up_to or self._begin_round()
        asked = (self._given_now(), span_to_micros(age), start, STRETCH, limit)
        [(gone, first, self._looked_up_to)] = yield Last(Query(self._sql["forget_jobs"], asked))
        if is_new_round:
            self._front = first or _BEGINNING
        return int(gone)

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> Steps[int]:
        if isinstance(keep, int):
            [(gone,)] = yield Last(Query(self._sql["forget_surplus_dead"], (keep, limit)))
        else:
            start = self._dead_up_to or _BEGINNING
            asked = (self._given_now(), span_to_micros(keep), start, STRETCH, limit)
            [(gone, self._dead_up_to)] = yield Last(Query(self._sql["forget_dead"], asked))
        return int(gone)

    def _begin_round(self) -> str:
        is_whole = self._rounds % WHOLE_ROUND_EVERY == 0
        self._rounds += 1
        return _BEGINNING if is_whole else self._front
