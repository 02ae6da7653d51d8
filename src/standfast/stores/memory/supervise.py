"""What supervisors ask of the memory store: leases, and what becomes of the claims of the dead."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from standfast.model.crash import CHARGED_ALONE, Aftermath, Death, DeathKind, Orphan, aftermath
from standfast.model.job import ClaimRef, KnownTask
from standfast.model.states import MOVES, STARTED_ITS_LAST, Move, Reason, State
from standfast.stores.claims import Member, turns
from standfast.stores.memory.rows import JobRow, Tables, WorkerRow, key_of, verb
from standfast.stores.values import BeatAnswer, DueSuspects, WorkerBeat, WorkerInfo
from standfast.stores.verb import Access


class SupervisionVerbs(Tables):
    """Register, beat, reconcile, condemn, bury, forget results and jobs."""

    @verb(Access.WRITE)
    def register(self, worker: WorkerInfo) -> None:
        if worker.id not in self._buried:
            self._workers.setdefault(worker.id, WorkerRow(worker, self._clock.now(), self._clock.boot()))

    @verb(Access.BEAT)
    def beat(self, beats: Sequence[WorkerBeat]) -> BeatAnswer:
        boot = self._clock.boot()
        accepted = [beat for beat in beats if self._is_alive(beat.worker)]
        for beat in accepted:
            row = self._workers[beat.worker]
            row.beat_at = boot
            row.polled_at = beat.polled_at or row.polled_at
            row.vitals = beat.vitals or row.vitals
        calling = {beat.worker for beat in beats}
        others = [row for name, row in self._workers.items() if name not in calling]
        living = [row for row in others if not row.is_expired(boot)]
        revoked = {beat.worker: self._revoked(beat.worker) for beat in accepted}
        replaced = {beat.worker: self._replaced(beat.worker) for beat in accepted}
        return BeatAnswer(
            accepted=frozenset(beat.worker for beat in accepted),
            now=self._clock.now(),
            revoked={worker: refs for worker, refs in revoked.items() if refs},
            replaced={worker: refs for worker, refs in replaced.items() if refs},
            paused=frozenset(self._paused_at),
            unnamed=frozenset(beat.worker for beat in accepted if self._unnamed(beat)),
            expired=frozenset(row.info.id for row in others if row.is_expired(boot)),
            next_expiry=min((row.lease_left(boot) for row in living), default=None),
            blocked=self._blocked(),
            suspects=self._suspects(),
            turns=turns({beat.worker for beat in accepted}, self._roster(boot)),
            record_due_at=min(filter(None, (record.due_at for record in self._records.values())), default=None),
        )

    def _roster(self, boot: float) -> Iterator[Member]:
        living = (row for row in self._workers.values() if not row.is_expired(boot))
        return (Member(row.info.id, row.info.queues, row.polled_at) for row in living)

    def _is_alive(self, worker: str) -> bool:
        row = self._workers.get(worker)
        return row is not None and not row.condemned

    def _revoked(self, worker: str) -> tuple[ClaimRef, ...]:
        return tuple(row.ref for row in self._claims_of(worker) if row.cancel_requested)

    def _replaced(self, worker: str) -> tuple[ClaimRef, ...]:
        return tuple(row.ref for row in self._claims_of(worker) if row.replaced_by is not None)

    def _unnamed(self, beat: WorkerBeat) -> list[JobRow]:
        claims = self._claims_of(beat.worker)
        return [row for row in claims if row.call <= beat.closed_call and row.ref not in beat.held]

    def _blocked(self) -> frozenset[KnownTask]:
        return frozenset(
            KnownTask(row.new.task, row.new.version)
            for row in self._jobs.values()
            if row.state is State.BLOCKED and row.reason == Reason.NO_WORKER
        )

    def _suspects(self) -> frozenset[DueSuspects]:
        now = self._clock.now()
        due = (row for row in self._jobs.values() if row.group and row.state_at(now) is State.READY)
        counts = Counter((row.new.queue, row.group) for row in due if row.new.queue not in self._paused_at)
        return frozenset(DueSuspects(*which, jobs) for which, jobs in counts.items())

    @verb(Access.WRITE, wakes=True, tells=True)
    def reconcile(self, beat: WorkerBeat) -> tuple[ClaimRef, ...]:
        now = self._clock.now()
        rows = self._unnamed(beat)
        for row in rows:
            move = row.settle(Move.RELEASE)
            row.attempt += MOVES[move].charges
            error = STARTED_ITS_LAST if move is Move.DIE else None
            row.close_claim(now, move, error)
            _leave(row, MOVES[move].target, now, error)
            self._free_follower(row)
        return tuple(row.ref for row in rows)

    @verb(Access.BEAT)
    def condemn(self, workers: frozenset[str]) -> frozenset[str]:
        boot = self._clock.boot()
        asked = [row for name, row in self._workers.items() if name in workers]
        for row in asked:
            row.condemned = row.is_expired(boot)
        return frozenset(row.info.id for row in asked if row.condemned)

    @verb(Access.WRITE)
    def forget_results(self, limit: int) -> int:
        now = self._clock.now()
        stale = list(islice((row for row in self._jobs.values() if row.has_stale_result(now)), limit))
        for row in stale:
            row.result = None
        return len(stale)

    @verb(Access.WRITE)
    def forget_jobs(self, age: timedelta, limit: int) -> int:
        now = self._clock.now()
        over = list(islice((row for row in self._jobs.values() if row.is_over(now, age)), limit))
        self._forget(over)
        return len(over)

    @verb(Access.WRITE)
    def forget_dead(self, keep: timedelta | int, limit: int) -> int:
        dead = sorted((row for row in self._jobs.values() if row.state is State.DEAD), key=lambda row: row.new.id)
        if isinstance(keep, int):
            over = dead[: max(len(dead) - keep, 0)]
        else:
            since = self._clock.now() - keep
            over = [row for row in dead if row.finished_at is not None and row.finished_at <= since]
        self._forget(over[:limit])
        return len(over[:limit])

    def _forget(self, rows: Sequence[JobRow]) -> None:
        for row in rows:
            del self._jobs[row.new.id]
            key = key_of(row.new)
            if key is not None and self._holders.get(key) == row.new.id:
                del self._holders[key]

    @verb(Access.WRITE, wakes=True, tells=True)
    def bury(self, worker: str, death: Death) -> tuple[ClaimRef, ...]:
        dead = self._workers.get(worker)
        if dead is None or (death.kind is DeathKind.VANISHED and not dead.condemned):
            return ()
        del self._workers[worker]
        self._buried.add(worker)
        now = self._clock.now()
        fates = aftermath(death, [_orphan(claim) for claim in self._claims_of(worker)])
        for fate in fates:
            row = self._jobs[fate.ref.job_id]
            _suffer(row, fate, death.evidence, now)
            self._free_follower(row)
        return tuple(fate.ref for fate in fates)


def _orphan(row: JobRow) -> Orphan:
    return Orphan(
        ref=row.ref,
        state=row.state,
        attempt=row.attempt,
        crashes=row.crashes,
        max_attempts=row.new.max_attempts,
        group=row.group,
        cancel_requested=row.cancel_requested,
        crashes_alone=sum(claim.folded or 1 for claim in row.claims if claim.how == CHARGED_ALONE),
        replaced=row.replaced_by is not None,
    )


def _suffer(row: JobRow, fate: Aftermath, evidence: str, now: datetime) -> None:
    row.attempt, row.crashes, row.group = fate.attempt, fate.crashes, fate.group
    row.close_claim(now, fate.how, fate.harm(evidence))
    _leave(row, fate.state, now, evidence or STARTED_ITS_LAST)


def _leave(row: JobRow, state: State, now: datetime, error: str | None) -> None:
    if state is State.DEAD:
        row.error = error
        row.end(state, now)
    elif state is State.CANCELLED:
        row.give_up(now)
    else:
        row.wait(row.run_at)
