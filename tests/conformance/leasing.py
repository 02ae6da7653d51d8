"""Leases: beats, condemnation and burial."""

from datetime import timedelta

import pytest

from conformance.harness import LEASE, Harness
from standfast.errors import WorkerBuriedError
from standfast.model.crash import Death, DeathKind
from standfast.model.states import State
from standfast.stores.contract import cancel_job
from standfast.stores.values import LeaseClock, WorkerBeat

VANISHED = Death(DeathKind.VANISHED)


class Burying:
    """Burying is safe: only the silent are condemned, and nothing of the buried is accepted."""

    def test_a_living_worker_is_not_condemned(self, harness: Harness) -> None:
        """Whoever asks, a worker within its lease is not marked, and still not at the very end of it."""
        worker = harness.register()
        harness.clock.advance(LEASE)
        assert harness.run(harness.verbs.condemn(frozenset({worker}))) == frozenset()
        assert harness.beat(worker).accepted == {worker}

    def test_age_is_judged_when_condemning(self, harness: Harness) -> None:
        """A beat that came after someone saw the worker expired saves it."""
        worker, other = harness.register(), harness.register()
        harness.clock.advance(LEASE + 1)
        assert harness.beat(other).expired == {worker}
        harness.beat(worker)
        assert harness.run(harness.verbs.condemn(frozenset({worker}))) == frozenset()

    def test_a_late_beat_is_accepted(self, harness: Harness) -> None:
        """However late, a beat is accepted as long as nobody marked the worker dead: an outage kills no one."""
        worker = harness.register()
        harness.clock.advance(100 * LEASE)
        assert harness.beat(worker).accepted == {worker}
        assert harness.run(harness.verbs.condemn(frozenset({worker}))) == frozenset()

    def test_a_wall_clock_set_forward(self, harness: Harness) -> None:
        """It expires nobody where leases are measured on a clock that nobody can set, else all until they beat."""
        worker, other = harness.register(), harness.register()
        harness.clock.step_wall(1000 * LEASE)
        fooled = harness.verbs.lease_clock is LeaseClock.SERVER
        assert harness.beat(other).expired == ({worker} if fooled else frozenset())
        assert harness.beat(worker).accepted == {worker}
        assert harness.beat(other).expired == frozenset()

    def test_a_wall_clock_set_back(self, harness: Harness) -> None:
        """It keeps no dead worker's lease alive: its time counts from the next beat of another at the latest."""
        worker, other = harness.register(), harness.register()
        harness.clock.step_wall(-1000 * LEASE)
        assert harness.beat(other).expired == frozenset()
        harness.clock.advance(LEASE + 1)
        assert harness.beat(other).expired == {worker}
        assert harness.run(harness.verbs.condemn(frozenset({worker}))) == {worker}

    def test_a_condemned_worker_cannot_beat(self, harness: Harness) -> None:
        """A mark is final: the beat after it is refused and does not lift it."""
        worker = harness.register()
        harness.expire(worker)
        assert harness.beat(worker).accepted == frozenset()
        assert harness.run(harness.verbs.condemn(frozenset({worker}))) == {worker}
        (seen,) = harness.run(harness.verbs.workers())
        assert seen.condemned

    def test_condemn_answers_for_those_asked_only(self, harness: Harness) -> None:
        """Only workers that were named are marked or returned; unknown names are ignored."""
        first, second = harness.register(), harness.register()
        harness.clock.advance(LEASE + 1)
        assert harness.run(harness.verbs.condemn(frozenset({first, "unknown"}))) == {first}
        assert harness.beat(second).accepted == {second}

    def test_the_buried_are_gone(self, harness: Harness) -> None:
        """After its burial a worker is not listed, cannot beat and cannot claim."""
        placed = harness.place(State.READY)
        harness.bury(placed.worker, DeathKind.VANISHED)
        assert harness.run(harness.verbs.workers()) == ()
        assert harness.beat(placed.worker).accepted == frozenset()
        with pytest.raises(WorkerBuriedError):
            harness.claim(placed.worker)

    @pytest.mark.parametrize("kind", list(DeathKind))
    def test_a_late_registration_raises_nobody(self, harness: Harness, kind: DeathKind) -> None:
        """A registration that was under way when its worker was buried changes nothing."""
        worker, info = harness.register(), harness.run(harness.verbs.workers())[0].info
        harness.enqueue()
        harness.expire(worker)
        harness.run(harness.verbs.bury(worker, Death(kind)))
        harness.run(harness.verbs.register(info))
        assert harness.run(harness.verbs.workers()) == ()
        assert harness.beat(worker).accepted == frozenset()
        with pytest.raises(WorkerBuriedError):
            harness.claim(worker)

    def test_an_unmarked_worker_is_not_buried_as_vanished(self, harness: Harness) -> None:
        """Burying a vanished worker without the mark does nothing, even if its lease has run out."""
        placed = harness.place(State.RUNNING)
        harness.clock.advance(LEASE + 1)
        before = harness.snapshot()
        assert harness.run(harness.verbs.bury(placed.worker, VANISHED)) == ()
        assert harness.snapshot() == before
        assert harness.beat(placed.worker).accepted == {placed.worker}

    @pytest.mark.parametrize("kind", [DeathKind.STOPPED, DeathKind.CRASHED])
    def test_a_supervisor_buries_at_once(self, harness: Harness, kind: DeathKind) -> None:
        """A death that the supervisor saw needs no mark: its jobs are ready at once."""
        placed = harness.place(State.HELD)
        assert harness.bury(placed.worker, kind) == (placed.ref,)
        assert harness.claimed_ids(harness.register()) == [placed.job_id]

    def test_a_supervisor_may_bury_the_condemned(self, harness: Harness) -> None:
        """Whoever finds a mark may finish the burial, with what it knows."""
        placed = harness.place(State.HELD)
        harness.expire(placed.worker)
        assert harness.bury(placed.worker, DeathKind.STOPPED) == (placed.ref,)

    def test_a_claim_between_mark_and_burial_is_given_back(self, harness: Harness) -> None:
        """What a condemned worker still claims is not lost: the burial gives it back too."""
        worker = harness.register()
        job_id = harness.enqueue()
        harness.expire(worker)
        ref = harness.claim_one(worker)
        assert harness.run(harness.verbs.bury(worker, VANISHED)) == (ref,)
        assert harness.claimed_ids(harness.register()) == [job_id]

    def test_burial_touches_no_one_else(self, harness: Harness) -> None:
        """Claims of other workers, and jobs this one had ended, stay as they are."""
        dead = harness.place(State.HELD, queue="a")
        others = [harness.place(state, queue=state) for state in State]
        before = [harness.job(other.job_id) for other in others]
        assert harness.bury(dead.worker, DeathKind.CRASHED) == (dead.ref,)
        assert [harness.job(other.job_id) for other in others] == before

    def test_burying_the_unknown_does_nothing(self, harness: Harness) -> None:
        """A worker that is not there is not an error."""
        before = harness.snapshot()
        for kind in DeathKind:
            assert harness.run(harness.verbs.bury("unknown", Death(kind))) == ()
        assert harness.snapshot() == before


class Beating:
    """What a beat brings back."""

    def test_many_workers_in_one_beat(self, harness: Harness) -> None:
        """A supervisor beats for all its children at once, and each is judged alone."""
        alive, condemned = harness.register(), harness.register()
        harness.clock.advance(LEASE + 1)
        harness.beat(alive)
        harness.run(harness.verbs.condemn(frozenset({condemned})))
        beats = [WorkerBeat(name) for name in (alive, condemned, "unknown")]
        answer = harness.run(harness.verbs.beat(beats))
        assert answer.accepted == {alive}
        assert answer.now == harness.clock.now()

    def test_those_in_the_call_are_never_expired(self, harness: Harness) -> None:
        """Nobody is told to bury those for whom it beats, refused ones included."""
        first, second = harness.register(), harness.register()
        harness.expire(second)
        answer = harness.run(harness.verbs.beat([WorkerBeat(first), WorkerBeat(second)]))
        assert answer.expired == frozenset()
        assert answer.next_expiry is None

    def test_others_past_their_lease_are_expired(self, harness: Harness) -> None:
        """A beat names the workers whose lease has run out, and those marked but not yet buried."""
        silent, marked, caller = harness.register(), harness.register(), harness.register()
        harness.clock.advance(LEASE)
        assert harness.beat(caller).expired == frozenset()
        harness.clock.advance(0.5)
        harness.run(harness.verbs.condemn(frozenset({marked})))
        assert harness.beat(caller).expired == {silent, marked}

    def test_next_expiry(self, harness: Harness) -> None:
        """A beat tells how long until the first other lease runs out, those already expired aside."""
        caller = harness.register()
        assert harness.beat(caller).next_expiry is None
        harness.register(lease=40)
        harness.register(lease=20)
        harness.clock.advance(4)
        assert harness.beat(caller).next_expiry == timedelta(seconds=16)
        harness.clock.advance(17)
        assert harness.beat(caller).next_expiry == timedelta(seconds=19)
        harness.clock.advance(20)
        assert harness.beat(caller).next_expiry is None

    def test_a_beat_renews_the_whole_lease(self, harness: Harness) -> None:
        """After a beat the worker's age is zero and others count its lease from there."""
        worker, caller = harness.register(), harness.register()
        harness.clock.advance(10)
        harness.beat(worker)
        ages = {seen.info.id: seen.beat_age for seen in harness.run(harness.verbs.workers())}
        assert ages == {worker: timedelta(), caller: timedelta(seconds=10)}
        assert harness.beat(caller).next_expiry == timedelta(seconds=LEASE)

    def test_revoked_are_claims_asked_to_cancel(self, harness: Harness) -> None:
        """A beat tells each worker which of its claims, held or running, someone wants cancelled."""
        held = harness.place(State.HELD, queue="a")
        running = harness.place(State.RUNNING, queue="b")
        untouched = harness.place(State.RUNNING, queue="c")
        for placed in (held, running):
            harness.run(cancel_job(harness.verbs, placed.job_id))
        everyone = (held, running, untouched)
        answer = harness.run(harness.verbs.beat([WorkerBeat(placed.worker) for placed in everyone]))
        assert answer.revoked == {held.worker: (held.ref,), running.worker: (running.ref,)}
        assert harness.beat(untouched.worker).revoked == {}

    def test_a_beat_changes_no_job(self, harness: Harness) -> None:
        """A beat only looks at jobs."""
        placed = harness.place(State.HELD)
        harness.run(cancel_job(harness.verbs, placed.job_id))
        before = harness.snapshot()
        harness.beat(placed.worker, closed_call=10**6)
        assert harness.snapshot() == before
