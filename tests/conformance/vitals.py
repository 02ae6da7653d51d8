"""What workers say with their beats of how they are."""

from datetime import timedelta

from conformance.harness import LEASE, Harness
from standfast.model.crash import DeathKind
from standfast.model.states import State
from standfast.stores.values import Vitals, WorkerBeat, WorkerInfo

WELL = Vitals(memory=123_456_789_012, running=3, slots=20, lag=0.004, pulse_age=0.75, done=12_345)
BUSY = Vitals(memory=None, running=20, slots=20, lag=None, pulse_age=12.5, done=12_346)


def _seen(harness: Harness) -> dict[str, Vitals | None]:
    return {worker.info.id: worker.vitals for worker in harness.run(harness.verbs.workers())}


class TellingHowTheyAre:
    """The last word of each worker is kept, and shown with it."""

    def test_nothing_is_known_before_a_beat_tells(self, harness: Harness) -> None:
        """A worker of an older release beats without a word about itself, and is as alive as any."""
        worker = harness.register()
        assert _seen(harness) == {worker: None}
        assert harness.beat(worker).accepted == {worker}
        assert _seen(harness) == {worker: None}

    def test_the_last_word_counts(self, harness: Harness) -> None:
        """All of it is read back as it was said, and a beat without news changes nothing."""
        worker = harness.register()
        for told in (WELL, BUSY, WELL):
            harness.beat(worker, vitals=told)
            assert _seen(harness) == {worker: told}
        harness.beat(worker)
        assert _seen(harness) == {worker: WELL}

    def test_each_has_its_own(self, harness: Harness) -> None:
        """One beat may tell of several workers, and of some nothing."""
        first, second, third = (harness.register() for _ in range(3))
        beats = [WorkerBeat(third, vitals=BUSY), WorkerBeat(first, vitals=WELL), WorkerBeat(second)]
        harness.run(harness.verbs.beat(beats))
        assert _seen(harness) == {first: WELL, second: None, third: BUSY}

    def test_why_shows_them_too(self, harness: Harness) -> None:
        """Who asks why a job does not run sees the same workers."""
        worker, job_id = harness.register(), harness.enqueue()
        harness.beat(worker, vitals=WELL)
        situation = harness.run(harness.verbs.situation(job_id))
        assert situation is not None
        assert [worker.vitals for worker in situation.workers] == [WELL]

    def test_who_is_refused_has_said_nothing(self, harness: Harness) -> None:
        """The beat of a condemned worker, or of one that is not registered, leaves nothing behind."""
        worker = harness.register()
        harness.expire(worker)
        harness.beat(worker, vitals=WELL)
        harness.beat("nobody", vitals=WELL)
        assert _seen(harness) == {worker: None}

    def test_they_go_with_their_worker(self, harness: Harness) -> None:
        """One that has the name of a stranger of before begins without a word."""
        harness.beat("w", vitals=WELL)
        harness.run(harness.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(seconds=LEASE))))
        assert _seen(harness) == {"w": None}
        placed = harness.place(State.RUNNING)
        harness.beat(placed.worker, vitals=BUSY)
        harness.bury(placed.worker, DeathKind.CRASHED)
        other = harness.register()
        assert _seen(harness) == {"w": None, other: None}
