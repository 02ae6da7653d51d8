"""The store of the world: the reference model, watched from outside at every commit.

The watcher never asks the store whether a write was right. It compares every job before and after each verb, keeps
its own record of fences, finishes, beats and burials, and says which promise was broken.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from simulator.watched_memos import WatchedMemos
from simulator.watching import Seen, Snapshot
from standfast.model.clock import Clock
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Cancellation, Claim, ClaimRef, Ending, JobAction, NewJob, Verdict
from standfast.model.states import CLAIMED, FINAL, Move, State
from standfast.stores.values import BeatAnswer, ClaimAnswer, ClaimRequest, JobOutcome, WorkerBeat, WorkerInfo
from standfast.stores.verb import Verb

if TYPE_CHECKING:
    from simulator.world import World

CHARGED = frozenset({Move.RETRY, Move.DIE})
"""The endings that may charge an attempt, said here again so that a wrong table does not excuse itself."""


class WatchedStore(WatchedMemos):
    """The memory store with a watcher over its shoulder."""

    def __init__(self, clock: Clock, world: "World") -> None:
        super().__init__(clock, world)
        self._seen_fences: dict[str, int] = {}
        self._seen_finished: dict[tuple[str, ClaimRef], Move] = {}
        self._seen_beat_at: dict[str, float] = {}
        self._seen_leases: dict[str, float] = {}
        self._seen_buried: set[str] = set()
        self.buried_as: dict[str, DeathKind] = {}
        self.found_at: list[float] = []
        """When jobs of vanished workers were given back."""
        self.claims: dict[str, list[tuple[str, float]]] = {}
        """Who claimed each job, and when."""
        self.cancel_asked_at: dict[str, float] = {}
        self.paused_at: dict[str, float] = {}

    # -- workers ---------------------------------------------------------------------------------------------

    def claim(self, request: ClaimRequest) -> Verb[ClaimAnswer]:
        """Watch: a new fence, a job that nobody had, a worker that is not buried."""

        def check(before: Snapshot, answer: ClaimAnswer) -> None:
            for claim in answer.jobs:
                self._check_claim(request.worker, before[claim.job_id], claim)
            if answer.jobs:
                given = " ".join(f"{claim.job_id}:{claim.fence}" for claim in answer.jobs)
                self._world.say(f"claim {request.call} of {request.worker[:4]} takes {given}")

        return self._watch(super().claim(request), check)

    def _check_claim(self, worker: str, before: Seen, claim: Claim) -> None:
        broken = self._world.violate
        if before.state in CLAIMED or before.state in FINAL:
            broken(f"{claim.job_id} was claimed while {before.state}")
        if claim.fence <= self._seen_fences.get(claim.job_id, 0):
            broken(f"fence {claim.fence} of {claim.job_id} was used before")
        if worker in self._seen_buried:
            broken(f"{claim.job_id} was claimed by {worker[:4]}, which is buried")
        self.claims.setdefault(claim.job_id, []).append((worker, self._clock.boot()))
        self._seen_fences[claim.job_id] = max(claim.fence, self._seen_fences.get(claim.job_id, 0))

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        """Watch: only the valid claim changes its job, once, and charges what it should."""

        def check(before: Snapshot, verdicts: tuple[Verdict, ...]) -> None:
            for ending, verdict in zip(endings, verdicts, strict=True):
                self._check_finish(worker, ending, verdict, before[ending.ref.job_id])

        return self._watch(super().finish(worker, endings), check)

    def _check_finish(self, worker: str, ending: Ending, verdict: Verdict, before: Seen) -> None:
        ref, broken = ending.ref, self._world.violate
        after = self.look(ref.job_id)
        self._world.say(f"finish {ending.move} {ref.job_id}:{ref.fence} of {worker[:4]}: {verdict}, {after.state}")
        valid = before.is_claim(worker, ref)
        recorded = (worker, ref) in self._seen_finished
        if after != before and not valid:
            broken(f"a stale finish of {ref.job_id}:{ref.fence} changed the job")
        if (verdict is Verdict.ACCEPTED) != (valid or recorded):
            broken(f"finish of {ref.job_id}:{ref.fence} was {verdict}, valid {valid}, recorded {recorded}")
        if valid:
            self._seen_finished[worker, ref] = ending.move
            self._world.trail.ended(ref, self._world.clock.boot())
            if ending.move in CHARGED and not self._world.ledger.has_started(worker, ref):
                broken(f"{ending.move} of {ref.job_id} ended an attempt that had not started")
            may_charge = ending.move in CHARGED or (before.state is State.RUNNING and before.max_attempts == 1)
            if after.attempt > before.attempt and not may_charge:
                broken(f"{ending.move} of {ref.job_id} charged an attempt")
            if ending.move in CHARGED and after.state is not State.CANCELLED and after.attempt == before.attempt:
                broken(f"{ending.move} of {ref.job_id} charged nothing")

    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Verb[tuple[Verdict, ...]]:
        """Watch: only the valid claim is marked."""

        def check(before: Snapshot, verdicts: tuple[Verdict, ...]) -> None:
            for (ref, _), verdict in zip(started, verdicts, strict=True):
                valid = before[ref.job_id].is_claim(worker, ref)
                if (verdict is Verdict.ACCEPTED) != valid or (
                    before[ref.job_id] != self.look(ref.job_id) and not valid
                ):
                    self._world.violate(f"start of {ref.job_id}:{ref.fence} was {verdict}, valid {valid}")

        return self._watch(super().start(worker, started), check)

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        """Remember since when a claimed job is wanted back."""

        def check(_: Snapshot, outcomes: Mapping[str, JobOutcome]) -> None:
            for job_id, outcome in outcomes.items():
                self._world.say(f"{action} {job_id}: {outcome}")
                if action is JobAction.CANCEL and outcome.cancellation is Cancellation.REQUESTED:
                    self.cancel_asked_at.setdefault(job_id, self._clock.boot())

        return self._watch(super().change_jobs(action, job_ids, run_at, instead), check)

    def pause(self, queue: str) -> Verb[None]:
        """Remember since when."""

        def check(_: Snapshot, __: None) -> None:
            self.paused_at.setdefault(queue, self._clock.boot())

        return self._watch(super().pause(queue), check)

    def resume(self, queue: str) -> Verb[None]:
        """Forget that it was paused."""

        def check(_: Snapshot, __: None) -> None:
            self.paused_at.pop(queue, None)

        return self._watch(super().resume(queue), check)

    # -- supervisors -----------------------------------------------------------------------------------------

    def register(self, worker: WorkerInfo) -> Verb[None]:
        """Watch: a registration counts as a beat."""

        def check(_: Snapshot, __: None) -> None:
            self._seen_beat_at.setdefault(worker.id, self._clock.boot())
            self._seen_leases[worker.id] = worker.lease.total_seconds()

        return self._watch(super().register(worker), check)

    def beat(self, beats: Sequence[WorkerBeat]) -> Verb[BeatAnswer]:
        """Watch: no beat of a buried worker is accepted."""

        def check(_: Snapshot, answer: BeatAnswer) -> None:
            for worker in answer.accepted:
                self._seen_beat_at[worker] = self._clock.boot()
                if worker in self._seen_buried:
                    self._world.violate(f"a beat of {worker[:4]} was accepted after its burial")

        return self._watch(super().beat(beats), check)

    def reconcile(self, beat: WorkerBeat) -> Verb[tuple[ClaimRef, ...]]:
        """Watch: what goes back is as it was."""

        def check(before: Snapshot, released: tuple[ClaimRef, ...]) -> None:
            for ref in released:
                self._world.say(f"reconcile {beat.worker[:4]}: {ref.job_id}:{ref.fence} released")
                if self.look(ref.job_id).attempt != before[ref.job_id].attempt:
                    self._world.violate(f"reconciling charged {ref.job_id}")
                if ref in beat.held:
                    self._world.violate(f"{ref.job_id} was taken from a worker that named it")

        return self._watch(super().reconcile(beat), check)

    def condemn(self, workers: frozenset[str]) -> Verb[frozenset[str]]:
        """Watch: nobody is marked whose lease has not run out by the beats that were accepted."""

        def check(_: Snapshot, marked: frozenset[str]) -> None:
            for worker in sorted(marked):
                age = self._clock.boot() - self._seen_beat_at[worker]
                self._world.say(f"condemn {worker[:4]}, silent for {age:.3f}")
                if age <= self._seen_leases[worker]:
                    self._world.violate(f"{worker[:4]} was condemned {age:.3f} s after an accepted beat")

        return self._watch(super().condemn(workers), check)

    def bury(self, worker: str, death: Death) -> Verb[tuple[ClaimRef, ...]]:
        """Watch: only the dead, or those silent for good reason, and only the guilty are charged."""

        def check(before: Snapshot, released: tuple[ClaimRef, ...]) -> None:
            registered = worker in self._seen_beat_at and worker not in self._seen_buried
            if registered and (death.kind is not DeathKind.VANISHED or worker not in self._workers):
                self._seen_buried.add(worker)
                self.buried_as[worker] = death.kind
                self._world.say(f"bury {worker[:4]} ({death.kind}), {len(released)} claims")
                self._world.check_burial(worker, death)
            if released and death.kind is DeathKind.VANISHED:
                self.found_at.append(self._clock.boot())
            together = death.started.intersection(released) if death.kind is DeathKind.CRASHED else ()
            for ref in released:
                fate = (ref, before[ref.job_id], self.look(ref.job_id))
                self._world.check_fate(worker, death, *fate)
                if len(together) > 1 and ref in together:
                    self._world.check_halves(worker, len(together), *fate)
            left = [
                job_id
                for job_id, seen in self.snapshot().items()
                if seen.state in CLAIMED and seen.worker == worker
            ]
            if worker in self._seen_buried and left:
                self._world.violate(f"{left} still belong to {worker[:4]}, which is buried")

        return self._watch(super().bury(worker, death), check)

    def found_no_place(self, job_id: str) -> bool:
        """Tell whether a worker gave the job back only when it was due."""
        row = self._jobs[job_id]
        backs = [claim.ended_at for claim in row.claims if claim.how == Move.RELEASE]
        return any(ended_at is not None and ended_at >= row.run_at for ended_at in backs)

    def history_of(self, job_id: str) -> list[str | None]:
        """Return how each claim of a job ended."""
        return [claim.how for claim in self._jobs[job_id].claims for _ in range(claim.folded or 1)]
