"""Who pays for the death of a worker, and how suspects are kept apart."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import KNOWN, TASK, Harness
from standfast.model.crash import CRASHES_ALONE_LIMIT, OF_HOST, Death, DeathKind, Orphan, aftermath
from standfast.model.job import ClaimRef, Failure, JobAction, KnownTask
from standfast.model.states import STARTED_ITS_LAST, Move, Reason, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import DueSuspects

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
        harness.run(cancel_job(harness.verbs, job_id))
    return ref


def _orphan(harness: Harness, ref: ClaimRef) -> Orphan:
    job = harness.job(ref.job_id)
    crashes_alone = [attempt.how for attempt in harness.history(ref.job_id)].count("crashed")
    return Orphan(
        ref, job.state, job.attempt, job.crashes, job.max_attempts, job.group, job.cancel_requested, crashes_alone
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
            assert (job.group, job.fence) == (fate.group, fate.ref.fence)
            assert harness.last_attempt(job.id).how == fate.how
            assert harness.last_attempt(job.id).ended_at == harness.clock.now()

    def test_one_alone_is_charged(self, harness: Harness) -> None:
        """The one job that ran in a crashed process pays with an attempt and carries the evidence."""
        placed = harness.place(State.RUNNING)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.group) == (State.READY, 1, 1, 1)
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
            assert (job.state, job.attempt, job.crashes, job.group) == (State.READY, 0, 1, 1)
            assert (attempt.how, attempt.error) == ("suspected", EVIDENCE)

    def test_what_had_not_started_is_unharmed(self, harness: Harness) -> None:
        """A held job of a crashed worker goes back as it was, with no evidence against it."""
        placed = harness.place(State.HELD)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset(), EVIDENCE)
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.crashes, job.group) == (State.READY, 0, 0, 0)
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
            suspicions.append((job.attempt, job.crashes, job.group))
        assert suspicions == [(0, 1, 0), (0, 2, 1)]

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
        for group in [0, *[1] * (CRASHES_ALONE_LIMIT - 1)]:
            worker = harness.register()
            ref = harness.claim_one(worker, group=group)
            harness.bury(worker, DeathKind.CRASHED, frozenset({ref}), EVIDENCE)
            states.append(harness.job(job_id).state)
        assert states == [State.READY] * (CRASHES_ALONE_LIMIT - 1) + [State.DEAD]

    def test_a_cancelled_job_of_a_dead_worker_is_cancelled(self, harness: Harness) -> None:
        """A cancellation asked for is kept when the worker dies: the job does not come back."""
        placed = harness.place(State.RUNNING)
        harness.run(cancel_job(harness.verbs, placed.job_id))
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
        assert harness.claimed_ids(harness.register(), group=1) == [suspect]
        assert harness.job(other).state is State.READY

    def test_suspects_are_not_claimed_ahead(self, harness: Harness) -> None:
        """A child for one job is not started before that job is due."""
        suspect = _make_suspect(harness)
        worker = harness.register()
        ref = harness.claim_one(worker, group=1)
        harness.finish(worker, ref, Move.RETRY, delay=timedelta(seconds=5))
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=60), "ahead_limit": 9}
        answer = harness.ask(worker, group=1, **ahead)
        assert answer.jobs == ()
        assert answer.next_due_at == harness.clock.now() + timedelta(seconds=5)
        assert harness.claim(worker, **ahead) == ()
        harness.clock.advance(5)
        assert harness.claimed_ids(worker, group=1) == [suspect]

    def test_suspicion_lasts(self, harness: Harness) -> None:
        """A suspect that failed, was snoozed or released is still a suspect."""
        suspect = _make_suspect(harness)
        worker = harness.register()
        for move in (Move.RETRY, Move.SNOOZE, Move.RELEASE):
            harness.finish(worker, harness.claim_one(worker, group=1), move)
            assert harness.job(suspect).group

    def test_many_run_again_in_groups(self, harness: Harness) -> None:
        """Of those that ran together, half at most run together next: whoever asks for their group gets them."""
        ids = _make_suspects(harness, 9)
        assert {harness.job(job_id).group for job_id in ids} == {4}
        alone = _make_suspect(harness)
        worker = harness.register()
        assert harness.beat(worker).suspects == {DueSuspects("default", 4, 9), DueSuspects("default", 1, 1)}
        assert harness.claim(worker, group=2) == ()
        group = harness.claimed_ids(worker, 4, group=4)
        assert group == ids[:4]
        assert harness.beat(worker).suspects == {DueSuspects("default", 4, 5), DueSuspects("default", 1, 1)}
        assert harness.claimed_ids(harness.register(), group=1) == [alone]

    def test_a_group_that_dies_is_halved(self, harness: Harness) -> None:
        """Again and again, until one dies alone and is charged; the group of the others stays as it was."""
        ids = _make_suspects(harness, 8)
        sizes, poison = [], ids[0]
        while (size := harness.job(poison).group) > 1:
            sizes.append(size)
            _crash(harness, harness.register(), size, group=size)
        assert sizes == [4, 2]
        assert [harness.job(job_id).group for job_id in ids] == [1, 1, 2, 2, 4, 4, 4, 4]
        assert {harness.job(job_id).attempt for job_id in ids} == {0}
        _crash(harness, harness.register(), 1, group=1)
        assert [harness.job(job_id).attempt for job_id in ids] == [1, *[0] * 7]

    def test_the_loss_of_a_host_is_no_suspicion(self, harness: Harness) -> None:
        """Who loses its host runs again as any other; who loses it again is a suspect. The last one is charged."""
        ids = [harness.enqueue() for _ in range(4)]
        _vanish(harness)
        assert {_numbers(harness, job_id) for job_id in ids} == {(0, 1, 0)}
        assert harness.beat(harness.register()).suspects == frozenset()
        _vanish(harness)
        assert {_numbers(harness, job_id) for job_id in ids} == {(0, 2, 2)}
        of_hosts = OF_HOST + 2
        assert harness.beat(harness.register()).suspects == {DueSuspects("default", of_hosts, 4)}
        _vanish(harness, 2, group=of_hosts)
        assert [_numbers(harness, job_id) for job_id in ids] == [(0, 3, 1), (0, 3, 1), (0, 2, 2), (0, 2, 2)]
        _vanish(harness, 1, group=OF_HOST + 1)
        assert [_numbers(harness, job_id) for job_id in ids] == [(1, 4, 1), (0, 3, 1), (0, 2, 2), (0, 2, 2)]

    def test_a_group_outlives_what_happens_to_its_jobs(self, harness: Harness) -> None:
        """A suspect that is claimed and tried again, dies and is requeued, or is forgotten, keeps to its group."""
        first, second, third, *_ = _make_suspects(harness, 4)
        worker = harness.register()
        refs = {claim.ref.job_id: claim.ref for claim in harness.claim(worker, group=2)}
        harness.finish(worker, refs[first], Move.RETRY)
        harness.finish(worker, refs[second], Move.DIE, failure=Failure("ValueError", "oh no"))
        harness.finish(worker, refs[third], Move.COMPLETE)
        assert [harness.job(job_id).group for job_id in (first, second, third)] == [2, 2, 2]
        harness.run(change_job(harness.verbs, JobAction.RETRY, second))
        assert set(harness.claimed_ids(harness.register(), group=2)) == {first, second}

    def test_the_beat_names_the_queues_of_suspects(self, harness: Harness) -> None:
        """A beat tells where suspects could be claimed now, so that nobody starts a child for nothing."""
        _make_suspect(harness)
        _make_suspect(harness, queue="mail")
        harness.enqueue(queue="other")
        worker = harness.register()
        assert harness.beat(worker).suspects == {DueSuspects("default", 1, 1), DueSuspects("mail", 1, 1)}
        (ref, _) = (claim.ref for claim in harness.claim(worker, group=1))
        assert harness.beat(worker).suspects == frozenset()
        harness.finish(worker, ref, Move.RETRY, delay=timedelta(seconds=5))
        assert harness.beat(worker).suspects == frozenset()
        harness.clock.advance(5)
        assert harness.beat(worker).suspects == {DueSuspects("default", 1, 1)}
        harness.run(harness.verbs.pause("default"))
        assert harness.beat(worker).suspects == frozenset()
        harness.run(harness.verbs.resume("default"))
        assert harness.beat(worker).suspects == {DueSuspects("default", 1, 1)}

    def test_a_blocked_suspect_is_found_again(self, harness: Harness) -> None:
        """A suspect that nobody knew waits for a child of its own as soon as a worker knows its task."""
        suspect = _block_suspect(harness)
        worker = harness.register()
        assert harness.beat(worker).suspects == frozenset()
        assert harness.claim(worker, adopt=(KNOWN,)) == ()
        job = harness.job(suspect)
        assert (job.state, job.reason, job.group) == (State.READY, None, 1)
        answer = harness.beat(worker)
        assert answer.suspects == {DueSuspects("default", 1, 1)}
        assert answer.blocked == frozenset()
        assert harness.claimed_ids(worker, group=1) == [suspect]

    def test_a_lone_child_adopts_a_blocked_suspect(self, harness: Harness) -> None:
        """A claim for suspects takes those that it adopts at once."""
        suspect = _block_suspect(harness)
        worker = harness.register()
        assert harness.claim(worker, group=1) == ()
        assert harness.claimed_ids(worker, group=1, adopt=(KNOWN,)) == [suspect]

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


def _make_suspects(harness: Harness, many: int) -> list[str]:
    ids = [harness.enqueue() for _ in range(many)]
    _crash(harness, harness.register(), many)
    return ids


def _crash(harness: Harness, worker: str, limit: int, **asked: Any) -> None:
    refs = frozenset(claim.ref for claim in harness.claim(worker, limit, **asked))
    assert len(refs) == limit
    harness.bury(worker, DeathKind.CRASHED, refs, EVIDENCE)


def _vanish(harness: Harness, limit: int = 100, **asked: Any) -> None:
    worker = harness.register()
    for claim in harness.claim(worker, limit, **asked):
        harness.start(worker, claim.ref)
    harness.bury(worker, DeathKind.VANISHED)


def _numbers(harness: Harness, job_id: str) -> tuple[int, int, int]:
    job = harness.job(job_id)
    return (job.attempt, job.crashes, job.group)


def _block_suspect(harness: Harness, **fields: object) -> str:
    suspect = _make_suspect(harness, **fields)
    worker = harness.register()
    harness.finish(worker, harness.claim_one(worker, group=1), Move.BLOCK, reason=Reason.NO_WORKER)
    return suspect
