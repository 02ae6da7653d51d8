"""Who pays for the death of a worker, and how suspects are kept apart."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.crash import CRASHES_ALONE_LIMIT, Death, DeathKind, Orphan, aftermath
from holdfast.core.job import ClaimRef, KnownTask
from holdfast.core.states import STARTED_ITS_LAST, Move, Reason, State
from holdfast.testing.conformance.harness import KNOWN, TASK, Harness

EVIDENCE = "child 4711 was killed by signal 9"


@dataclass(frozen=True, slots=True)
class Load:
    """One job of a worker that is about to die."""

    running: bool = False
    started: bool = False
    max_attempts: int = 5
    cancelled: bool = False


HELD = Load()
STARTED = Load(started=True)
RUNNING = Load(running=True, started=True)
LAST_CHANCE = Load(running=True, started=True, max_attempts=1)
UNWANTED = Load(running=True, started=True, cancelled=True)
HELD_UNWANTED = Load(cancelled=True)
MARKED_LAST_CHANCE = Load(running=True, max_attempts=1)
UNWANTED_LAST_CHANCE = Load(running=True, started=True, max_attempts=1, cancelled=True)

LOADS = [
    [],
    [HELD],
    [STARTED],
    [RUNNING],
    [LAST_CHANCE],
    [MARKED_LAST_CHANCE],
    [MARKED_LAST_CHANCE, RUNNING],
    [UNWANTED],
    [UNWANTED_LAST_CHANCE],
    [HELD, RUNNING],
    [HELD, HELD_UNWANTED],
    [RUNNING, RUNNING],
    [STARTED, RUNNING, HELD],
    [LAST_CHANCE, RUNNING, HELD],
    [UNWANTED, RUNNING, LAST_CHANCE, HELD_UNWANTED],
]


def _take_up(harness: Harness, worker: str, load: Load) -> ClaimRef:
    job_id = harness.enqueue(max_attempts=load.max_attempts)
    ref = harness.claim_one(worker)
    if load.running:
        harness.start(worker, ref)
    if load.cancelled:
        harness.run(harness.verbs.cancel(job_id))
    return ref


def _orphan(harness: Harness, ref: ClaimRef) -> Orphan:
    job = harness.job(ref.job_id)
    crashes_alone = [attempt.how for attempt in harness.history(ref.job_id)].count("crashed")
    return Orphan(
        ref,
        job.state,
        job.attempt,
        job.crashes,
        job.max_attempts,
        job.alone,
        job.cancel_requested,
        crashes_alone,
    )


class Crashing:
    """A crash touches only what had started, as `crash.aftermath` says."""

    @pytest.mark.parametrize("loads", LOADS, ids=len)
    @pytest.mark.parametrize("kind", list(DeathKind))
    def test_aftermath_is_applied(self, harness: Harness, kind: DeathKind, loads: list[Load]) -> None:
        """Whatever a worker had when it died, each of its jobs fares as the table says, history included."""
        worker = harness.register()
        refs = [_take_up(harness, worker, load) for load in loads]
        started = frozenset(ref for ref, load in zip(refs, loads, strict=True) if load.started)
        fates = aftermath(Death(kind, started, EVIDENCE), [_orphan(harness, ref) for ref in refs])
        assert set(harness.bury(worker, kind, started, EVIDENCE)) == set(refs)
        for fate in fates:
            job = harness.job(fate.ref.job_id)
            assert (job.state, job.attempt, job.crashes) == (fate.state, fate.attempt, fate.crashes)
            assert (job.alone, job.fence) == (fate.alone, fate.ref.fence)
            assert harness.last_attempt(job.id).how == fate.how
            assert harness.last_attempt(job.id).ended_at == harness.clock.now()

    def test_one_alone_is_charged(self, harness: Harness) -> None:
        """The one job that ran in a crashed process pays with an attempt and carries the evidence."""
        placed = harness.place(State.RUNNING)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.alone) == (State.READY, 1, 1, True)
        assert (job.worker, job.progress) == (None, None)
        attempt = harness.last_attempt(placed.job_id)
        assert (attempt.how, attempt.error) == ("crashed", EVIDENCE)

    def test_of_several_none_is_charged(self, harness: Harness) -> None:
        """When several ran, each becomes a suspect and none pays with an attempt."""
        worker = harness.register()
        ids = [harness.enqueue() for _ in range(2)]
        refs = frozenset(claim.ref for claim in harness.claim(worker))
        harness.bury(worker, DeathKind.CRASHED, refs, EVIDENCE)
        for job_id in ids:
            job, attempt = harness.job(job_id), harness.last_attempt(job_id)
            assert (job.state, job.attempt, job.crashes, job.alone) == (State.READY, 0, 1, True)
            assert (attempt.how, attempt.error) == ("suspected", EVIDENCE)

    def test_what_had_not_started_is_unharmed(self, harness: Harness) -> None:
        """A held job of a crashed worker goes back as it was, with no evidence against it."""
        placed = harness.place(State.HELD)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset(), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.alone) == (State.READY, 0, 0, False)
        assert (job.error, harness.last_attempt(placed.job_id).error) == (None, None)

    def test_a_job_held_ahead_waits_for_its_time_again(self, harness: Harness) -> None:
        """A worker's death does not make a job due early."""
        job_id = harness.enqueue(delay=timedelta(seconds=60))
        run_at = harness.job(job_id).run_at
        worker = harness.register()
        harness.claim_one(worker, look_ahead=timedelta(seconds=90), ahead_limit=1)
        harness.bury(worker, DeathKind.STOPPED)
        job = harness.job(job_id)
        assert (job.state, job.run_at, job.worker) == (State.SCHEDULED, run_at, None)

    def test_vanished_twice_is_a_suspect(self, harness: Harness) -> None:
        """A held job whose worker vanished is given the benefit of the doubt once."""
        job_id = harness.enqueue()
        suspicions = []
        for _ in range(2):
            worker = harness.register()
            harness.claim_one(worker)
            harness.bury(worker, DeathKind.VANISHED)
            job = harness.job(job_id)
            suspicions.append((job.attempt, job.crashes, job.alone))
        assert suspicions == [(0, 1, False), (0, 2, True)]

    def test_the_last_attempt_ends_in_death(self, harness: Harness) -> None:
        """A job that crashes its worker with its last attempt is dead, and says why."""
        placed = harness.place(State.RUNNING, max_attempts=1)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.error, job.finished_at) == (State.DEAD, EVIDENCE, harness.clock.now())
        assert job.worker == placed.worker

    def test_a_last_chance_is_not_given_back_by_a_stop(self, harness: Harness) -> None:
        """A job with one attempt that was marked running never starts again, however its worker ended."""
        placed = harness.place(State.RUNNING, max_attempts=1)
        harness.bury(placed.worker, DeathKind.STOPPED)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.error) == (State.DEAD, 1, STARTED_ITS_LAST)

    def test_a_poison_job_is_stopped(self, harness: Harness) -> None:
        """A job that brought down a process of its own too often is dead with attempts left."""
        job_id = harness.enqueue(max_attempts=100)
        states = []
        for alone in [False, *[True] * (CRASHES_ALONE_LIMIT - 1)]:
            worker = harness.register()
            ref = harness.claim_one(worker, alone=alone)
            harness.bury(worker, DeathKind.CRASHED, frozenset({ref}), EVIDENCE)
            states.append(harness.job(job_id).state)
        assert states == [State.READY] * (CRASHES_ALONE_LIMIT - 1) + [State.DEAD]

    def test_a_cancelled_job_of_a_dead_worker_is_cancelled(self, harness: Harness) -> None:
        """A cancellation asked for is kept when the worker dies: the job does not come back."""
        placed = harness.place(State.RUNNING)
        harness.run(harness.verbs.cancel(placed.job_id))
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)
        assert job.finished_at == harness.clock.now()


def _make_suspect(harness: Harness, **fields: object) -> str:
    placed = harness.place(State.RUNNING, **fields)
    harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), EVIDENCE)
    return placed.job_id


class Suspects:
    """A suspect runs in a child of its own: claimed only by who asks for suspects."""

    def test_suspects_are_left_by_a_plain_claim(self, harness: Harness) -> None:
        """A worker that does not run jobs alone neither gets suspects nor hears when they are due."""
        _make_suspect(harness)
        answer = harness.ask(harness.register())
        assert (answer.jobs, answer.next_due_at) == ((), None)

    def test_only_suspects_are_claimed_alone(self, harness: Harness) -> None:
        """A claim for suspects leaves every other job where it is."""
        suspect = _make_suspect(harness)
        other = harness.enqueue()
        assert harness.claimed_ids(harness.register(), alone=True) == [suspect]
        assert harness.job(other).state is State.READY

    def test_suspects_are_not_claimed_ahead(self, harness: Harness) -> None:
        """A child for one job is not started before that job is due."""
        suspect = _make_suspect(harness)
        worker = harness.register()
        ref = harness.claim_one(worker, alone=True)
        harness.finish(worker, ref, Move.RETRY, delay=timedelta(seconds=5))
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=60), "ahead_limit": 9}
        answer = harness.ask(worker, alone=True, **ahead)
        assert answer.jobs == ()
        assert answer.next_due_at == harness.clock.now() + timedelta(seconds=5)
        assert harness.claim(worker, **ahead) == ()
        harness.clock.advance(5)
        assert harness.claimed_ids(worker, alone=True) == [suspect]

    def test_suspicion_lasts(self, harness: Harness) -> None:
        """A suspect that failed, was snoozed or released is still a suspect."""
        suspect = _make_suspect(harness)
        worker = harness.register()
        for move in (Move.RETRY, Move.SNOOZE, Move.RELEASE):
            harness.finish(worker, harness.claim_one(worker, alone=True), move)
            assert harness.job(suspect).alone

    def test_the_beat_names_the_queues_of_suspects(self, harness: Harness) -> None:
        """A beat tells where suspects could be claimed now, so that nobody starts a child for nothing."""
        _make_suspect(harness)
        _make_suspect(harness, queue="mail")
        harness.enqueue(queue="other")
        worker = harness.register()
        assert harness.beat(worker).suspects == {"default", "mail"}
        (ref, _) = (claim.ref for claim in harness.claim(worker, alone=True))
        assert harness.beat(worker).suspects == frozenset()
        harness.finish(worker, ref, Move.RETRY, delay=timedelta(seconds=5))
        assert harness.beat(worker).suspects == frozenset()
        harness.clock.advance(5)
        assert harness.beat(worker).suspects == {"default"}
        harness.run(harness.verbs.pause("default"))
        assert harness.beat(worker).suspects == frozenset()
        harness.run(harness.verbs.resume("default"))
        assert harness.beat(worker).suspects == {"default"}

    def test_a_blocked_suspect_is_found_again(self, harness: Harness) -> None:
        """A suspect that nobody knew waits for a child of its own as soon as a worker knows its task."""
        suspect = _block_suspect(harness)
        worker = harness.register()
        assert harness.beat(worker).suspects == frozenset()
        assert harness.claim(worker, adopt=(KNOWN,)) == ()
        job = harness.job(suspect)
        assert (job.state, job.reason, job.alone) == (State.READY, None, True)
        answer = harness.beat(worker)
        assert answer.suspects == {"default"}
        assert answer.blocked == frozenset()
        assert harness.claimed_ids(worker, alone=True) == [suspect]

    def test_a_lone_child_adopts_a_blocked_suspect(self, harness: Harness) -> None:
        """A claim for suspects takes those that it adopts at once."""
        suspect = _block_suspect(harness)
        worker = harness.register()
        assert harness.claim(worker, alone=True) == ()
        assert harness.claimed_ids(worker, alone=True, adopt=(KNOWN,)) == [suspect]

    def test_a_blocked_suspect_is_found_by_who_can_take_it(self, harness: Harness) -> None:
        """Another task, an older version, another queue and a paused queue leave a suspect blocked."""
        suspect = _block_suspect(harness, version=2)
        worker = harness.register()
        known = (KnownTask(TASK, 2),)
        harness.claim(worker, adopt=(KnownTask(TASK, 1), KnownTask("other", 9)))
        harness.claim(worker, queues=("other",), adopt=known)
        harness.run(harness.verbs.pause("default"))
        harness.claim(worker, adopt=known)
        assert harness.job(suspect).state is State.BLOCKED
        harness.run(harness.verbs.resume("default"))
        harness.claim(worker, adopt=known)
        assert harness.job(suspect).state is State.READY


def _block_suspect(harness: Harness, **fields: object) -> str:
    suspect = _make_suspect(harness, **fields)
    worker = harness.register()
    harness.finish(worker, harness.claim_one(worker, alone=True), Move.BLOCK, reason=Reason.NO_WORKER)
    return suspect
