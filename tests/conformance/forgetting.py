"""Jobs that are over are forgotten after their time, and no others."""

from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.model.job import Failure, JobAction
from standfast.model.states import FINAL, Move, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.values import JobFilter

DAY = timedelta(days=1)


def _retire(harness: Harness, limit: int = 100) -> int:
    return harness.run(harness.verbs.forget_jobs(DAY, limit))


def _forget_dead(harness: Harness, keep: timedelta | int = DAY, limit: int = 100) -> int:
    return harness.run(harness.verbs.forget_dead(keep, limit))


class Forgetting:
    """What completed or was cancelled long ago goes; everything else stays."""

    @pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED])
    def test_what_is_over_is_forgotten(self, harness: Harness, state: State) -> None:
        """Not before its time; and then nothing of it is left in any view."""
        placed = harness.place(state, tags=("red",), key="order-1")
        harness.clock.advance(DAY.total_seconds() - 1)
        assert _retire(harness) == 0
        harness.clock.advance(1)
        assert _retire(harness) == 1
        assert harness.run(harness.verbs.get(placed.job_id)) is None
        assert harness.history(placed.job_id) == ()
        assert harness.run(harness.verbs.list_jobs(JobFilter(tags=("red",)))).jobs == ()
        assert harness.run(harness.verbs.list_jobs(JobFilter(key="order-1"))).jobs == ()
        assert harness.run(harness.verbs.glance([placed.job_id])) == {}
        assert set(harness.run(count_states(harness.verbs)).values()) == {0}
        assert harness.run(harness.verbs.queues()) == ()
        assert _retire(harness) == 0

    @pytest.mark.parametrize("state", sorted(set(State) - FINAL | {State.DEAD}))
    def test_what_is_not_over_stays(self, harness: Harness, state: State) -> None:
        """However long ago it came, a job that is unfinished or dead is not touched."""
        harness.place(state)
        harness.clock.advance(100 * DAY.total_seconds())
        before = harness.snapshot()
        assert _retire(harness) == 0
        assert harness.snapshot() == before

    def test_the_time_counts_from_the_end(self, harness: Harness) -> None:
        """A job that was long under way is kept as long after its end as any other."""
        placed = harness.place(State.RUNNING)
        harness.clock.advance(DAY.total_seconds())
        harness.finish(placed.worker, placed.ref, Move.COMPLETE)
        assert _retire(harness) == 0
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness) == 1

    def test_no_more_than_asked_for(self, harness: Harness) -> None:
        """The limit holds, and the next calls go on with the rest."""
        for _ in range(5):
            harness.place(State.COMPLETED)
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness, 0) == 0
        assert [_retire(harness, 2) for _ in range(4)] == [2, 2, 1, 0]

    def test_a_kept_key_keeps_its_job(self, harness: Harness) -> None:
        """A job whose key is still taken stays until that is over; then both are gone."""
        placed = harness.place(State.COMPLETED, key="order-1", keep_key=2 * DAY)
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness) == 0
        assert harness.taken_by(key="order-1") == placed.job_id
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness) == 1
        assert harness.taken_by(key="order-1") is None

    def test_a_key_that_another_job_has_since_stays_with_it(self, harness: Harness) -> None:
        """To forget who had a key once does not take it from who has it now."""
        harness.place(State.COMPLETED, key="order-1")
        harness.clock.advance(DAY.total_seconds())
        holder = harness.enqueue(key="order-1")
        assert _retire(harness) == 1
        assert harness.taken_by(key="order-1") == holder

    def test_a_dead_job_whose_key_was_forgotten_is_requeued(self, harness: Harness) -> None:
        """The job that had its key after it is gone, so that it takes its key again."""
        dead = harness.place(State.DEAD, key="order-1")
        harness.place(State.COMPLETED, key="order-1")
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness) == 1
        harness.run(change_job(harness.verbs, JobAction.RETRY, dead.job_id))
        assert harness.taken_by(key="order-1") == dead.job_id

    def test_a_result_kept_for_a_time_goes_with_its_job(self, harness: Harness) -> None:
        """A sweep afterwards finds nothing to forget."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.COMPLETE, result=b"1", keep_result=2 * DAY)
        harness.clock.advance(DAY.total_seconds())
        assert _retire(harness) == 1
        harness.clock.advance(2 * DAY.total_seconds())
        assert harness.run(harness.verbs.forget_results(10)) == 0

    # -- dead jobs -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("keep", [DAY, 1])
    def test_a_dead_job_that_is_kept_no_longer_is_forgotten(self, harness: Harness, keep: timedelta | int) -> None:
        """By its age or because there are newer ones, and not before; nothing of it is left in any view."""
        placed = harness.place(State.DEAD, tags=("red",), key="order-1")
        harness.clock.advance(DAY.total_seconds() - 1)
        assert _forget_dead(harness, keep) == 0
        newer = harness.place(State.DEAD)
        harness.clock.advance(1)
        assert _forget_dead(harness, keep) == 1
        assert harness.run(harness.verbs.get(placed.job_id)) is None
        assert harness.history(placed.job_id) == ()
        assert harness.run(harness.verbs.list_jobs(JobFilter(tags=("red",)))).jobs == ()
        assert harness.run(harness.verbs.list_jobs(JobFilter(key="order-1"))).jobs == ()
        assert [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs] == [newer.job_id]
        assert harness.run(count_states(harness.verbs))[State.DEAD] == 1
        assert _forget_dead(harness, keep) == 0

    @pytest.mark.parametrize("state", sorted(set(State) - {State.DEAD}))
    def test_what_is_not_dead_is_not_forgotten_with_the_dead(self, harness: Harness, state: State) -> None:
        """Neither by age nor by number."""
        harness.place(state)
        harness.clock.advance(100 * DAY.total_seconds())
        before = harness.snapshot()
        assert (_forget_dead(harness, DAY), _forget_dead(harness, 1)) == (0, 0)
        assert harness.snapshot() == before

    @pytest.mark.parametrize("keep", [DAY, 2])
    def test_the_oldest_dead_jobs_are_forgotten_first(self, harness: Harness, keep: timedelta | int) -> None:
        """No more than the limit at a time, and the next calls go on with the rest."""
        jobs = [harness.place(State.DEAD).job_id for _ in range(5)]
        harness.clock.advance(DAY.total_seconds())
        jobs += [harness.place(State.DEAD).job_id for _ in range(2)]
        assert _forget_dead(harness, keep, 0) == 0
        for forgotten, left in ((2, jobs[2:]), (2, jobs[4:]), (1, jobs[5:]), (0, jobs[5:])):
            assert _forget_dead(harness, keep, 2) == forgotten
            assert [job.id for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs] == left[::-1]

    def test_the_age_of_a_dead_job_counts_from_its_death(self, harness: Harness) -> None:
        """One that ran for long is kept as long as any other, and the ones behind it do not wait for it."""
        slow, quick = harness.place(State.RUNNING), harness.place(State.DEAD)
        harness.clock.advance(DAY.total_seconds())
        harness.finish(slow.worker, slow.ref, Move.DIE, failure=Failure("ValueError", "no"))
        assert _forget_dead(harness) == 1
        assert harness.run(harness.verbs.get(quick.job_id)) is None
        harness.clock.advance(DAY.total_seconds())
        assert _forget_dead(harness) == 1

    def test_the_key_of_a_forgotten_dead_job_stays_with_who_has_it_since(self, harness: Harness) -> None:
        """To forget who had a key once does not take it from who has it now."""
        harness.place(State.DEAD, key="order-1")
        harness.clock.advance(DAY.total_seconds())
        holder = harness.enqueue(key="order-1")
        assert _forget_dead(harness) == 1
        assert harness.taken_by(key="order-1") == holder
