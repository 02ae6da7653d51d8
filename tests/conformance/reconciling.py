"""A lease covers only what the worker says it holds."""

from conformance.harness import Harness
from standfast.model.job import Verdict
from standfast.model.states import STARTED_ITS_LAST, Move, Reason, State
from standfast.stores.contract import cancel_job
from standfast.stores.values import WorkerBeat


class Reconciling:
    """Claims of closed calls that their worker does not name are given back."""

    def test_an_answer_lost_on_the_wire_is_given_back(self, harness: Harness) -> None:
        """A claim whose answer never arrived is found by the beat and released, nothing charged."""
        worker = harness.register()
        job_id = harness.enqueue()
        ref = harness.claim_one(worker, call=1)
        assert harness.beat(worker, closed_call=1).unnamed == {worker}
        assert harness.run(harness.verbs.reconcile(WorkerBeat(worker, 1))) == (ref,)
        job = harness.job(job_id)
        assert (job.state, job.attempt, job.crashes, job.worker) == (State.READY, 0, 0, None)
        assert harness.beat(worker, closed_call=1).unnamed == frozenset()

    def test_a_late_commit_is_given_back(self, harness: Harness) -> None:
        """A claim that is committed after its worker gave up the call is released by a later beat."""
        worker = harness.register()
        assert harness.beat(worker, closed_call=3).unnamed == frozenset()
        harness.enqueue()
        ref = harness.claim_one(worker, call=3)
        beat = WorkerBeat(worker, 3)
        assert harness.run(harness.verbs.beat([beat])).unnamed == {worker}
        assert harness.run(harness.verbs.reconcile(beat)) == (ref,)

    def test_an_open_call_is_left_alone(self, harness: Harness) -> None:
        """A call that is not closed may still bring its answer: its claims stay."""
        worker = harness.register()
        harness.enqueue()
        harness.claim_one(worker, call=2)
        before = harness.snapshot()
        assert harness.beat(worker, closed_call=1).unnamed == frozenset()
        assert harness.run(harness.verbs.reconcile(WorkerBeat(worker, 1))) == ()
        assert harness.snapshot() == before

    def test_what_is_named_stays(self, harness: Harness) -> None:
        """Of one call, only the claims that are not named go back."""
        worker = harness.register()
        harness.enqueue()
        harness.enqueue()
        kept, lost = (claim.ref for claim in harness.claim(worker, call=1))
        beat = WorkerBeat(worker, 1, frozenset({kept}))
        assert harness.run(harness.verbs.beat([beat])).unnamed == {worker}
        assert harness.run(harness.verbs.reconcile(beat)) == (lost,)
        assert harness.job(kept.job_id).state is State.HELD
        assert harness.run(harness.verbs.beat([beat])).unnamed == frozenset()

    def test_an_older_fence_of_the_same_job_is_not_its_name(self, harness: Harness) -> None:
        """Naming a claim by a fence that has passed does not keep the present one."""
        worker = harness.register()
        harness.enqueue()
        old = harness.claim_one(worker, call=1)
        harness.finish(worker, old, Move.RELEASE)
        new = harness.claim_one(worker, call=2)
        assert harness.run(harness.verbs.reconcile(WorkerBeat(worker, 2, frozenset({old})))) == (new,)

    def test_running_claims_that_are_not_named_go_back_too(self, harness: Harness) -> None:
        """What the worker does not have, it does not run either."""
        placed = harness.place(State.RUNNING)
        assert harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, 10**6))) == (placed.ref,)
        assert harness.job(placed.job_id).state is State.READY

    def test_other_workers_are_not_touched(self, harness: Harness) -> None:
        """A worker speaks for its own claims only."""
        placed = harness.place(State.HELD)
        other = harness.register()
        before = harness.snapshot()
        assert harness.beat(other, closed_call=10**6).unnamed == frozenset()
        assert harness.run(harness.verbs.reconcile(WorkerBeat(other, 10**6))) == ()
        assert harness.run(harness.verbs.reconcile(WorkerBeat("unknown", 10**6))) == ()
        assert harness.snapshot() == before
        assert harness.job(placed.job_id).worker == placed.worker

    def test_reconcile_writes_history(self, harness: Harness) -> None:
        """The history says that the claim was released, and a finish of it comes too late."""
        placed = harness.place(State.HELD)
        harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, 10**6)))
        attempt = harness.last_attempt(placed.job_id)
        assert (attempt.how, attempt.ended_at) == (Move.RELEASE, harness.clock.now())
        assert harness.finish(placed.worker, placed.ref, Move.RELEASE) is Verdict.STALE

    def test_a_last_chance_is_not_given_back_unnamed(self, harness: Harness) -> None:
        """A job with one attempt that was marked running never starts again, named or not."""
        placed = harness.place(State.RUNNING, max_attempts=1)
        assert harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, 10**6))) == (placed.ref,)
        job, attempt = harness.job(placed.job_id), harness.last_attempt(placed.job_id)
        assert (job.state, job.attempt, job.error) == (State.DEAD, 1, STARTED_ITS_LAST)
        assert (attempt.how, attempt.error) == (Move.DIE, STARTED_ITS_LAST)

    def test_a_cancelled_claim_is_not_given_back(self, harness: Harness) -> None:
        """A cancellation asked for takes effect when the claim is released."""
        placed = harness.place(State.HELD)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        assert harness.run(harness.verbs.reconcile(WorkerBeat(placed.worker, 10**6))) == (placed.ref,)
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)
        assert job.finished_at == harness.clock.now()
