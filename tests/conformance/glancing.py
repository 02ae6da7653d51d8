"""The cheap look of those who wait for jobs."""

from datetime import timedelta

from conformance.harness import Harness
from standfast.model.job import Glance, Progress
from standfast.model.states import State


class Glancing:
    """A glance agrees with the whole look."""

    def test_every_state_is_seen(self, harness: Harness) -> None:
        """The states of many jobs come in one answer; those that do not exist are left out."""
        placed = {state: harness.place(state, queue=state).job_id for state in State}
        harness.enqueue()
        seen = harness.run(harness.verbs.glance([*placed.values(), "unknown"]))
        assert seen == {job_id: Glance(state, None) for state, job_id in placed.items()}

    def test_a_due_job_is_ready(self, harness: Harness) -> None:
        """A job whose time has come is ready without anything having touched it."""
        job_id = harness.enqueue(delay=timedelta(seconds=5))
        assert harness.run(harness.verbs.glance([job_id]))[job_id].state is State.SCHEDULED
        harness.clock.advance(5)
        assert harness.run(harness.verbs.glance([job_id]))[job_id].state is State.READY

    def test_progress_is_seen(self, harness: Harness) -> None:
        """Progress comes as the handler reported it."""
        placed = harness.place(State.RUNNING)
        for progress in (Progress(1, 4), Progress(2, 4, "the second: ü"), Progress(2.5, None)):
            harness.run(harness.verbs.progress(placed.worker, [(placed.ref, progress)]))
            assert harness.run(harness.verbs.glance([placed.job_id])) == {
                placed.job_id: Glance(State.RUNNING, progress)
            }

    def test_a_glance_at_nothing(self, harness: Harness) -> None:
        """No ids, no answer; one id twice is one answer."""
        assert harness.run(harness.verbs.glance([])) == {}
        job_id = harness.enqueue()
        assert harness.run(harness.verbs.glance([job_id, job_id])) == {job_id: Glance(State.READY, None)}

    def test_a_glance_at_many(self, harness: Harness) -> None:
        """Thousands of ids are one look."""
        jobs = [harness.new_job() for _ in range(3000)]
        harness.run(harness.verbs.enqueue(jobs))
        seen = harness.run(harness.verbs.glance([job.id for job in jobs]))
        assert len(seen) == len(jobs)
        assert set(seen.values()) == {Glance(State.READY, None)}
